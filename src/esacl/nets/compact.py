"""A network without the channels that nobody reads, in parts that read nothing of one another: for answers only."""

from collections.abc import Mapping
from copy import deepcopy

import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from esacl.errors import ConfigError
from esacl.nets.connections import HEAD, IMAGE, Connection, connections, stages_of
from esacl.nets.macs import macs_per_example
from esacl.nets.model import Model
from esacl.nets.widths import keep_channels
from esacl.types import Outputs

Kept = dict[str, Tensor]
"""Channels by group of units."""


class Compact(nn.Module):
    """A trunk that is called once, branches that read it, and a head that reads them all; features of branches in turn.

    Which channels are whose is read from the weights: a channel goes where all weights that read it are zero, and two
    channels are of one branch if a chain of weights joins them. So the answers are those of the whole network, up to
    the rounding of sums.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        if model.expansion is not None:
            raise ConfigError("a model with random features has no compact form. Leave --compact out.")
        stages = stages_of(model)
        layers = connections(model, stages)
        macs = macs_per_example(model, model.shape)
        joined = {one.layer: _joined(model, one) for one in layers}
        live = _live(layers, joined)
        found = [_divided(layers, joined, live, since) for since in range(len(stages.starts))]
        costs = [
            (sum(_cost(layers, joined, macs, trunk, kept) for kept in (trunk, *parts)), len(parts))
            for trunk, parts in found
        ]
        since = min(range(len(costs)), key=costs.__getitem__)
        trunk, parts = found[since]
        copies = [deepcopy(model) for _ in parts]
        for copy, kept in zip(copies, parts):
            keep_channels(copy, trunk | kept)
        self.body = stages.part(0, since, copies[0]) if since else None
        self.limbs = nn.ModuleList(stages.part(since, len(stages.starts), copy) for copy in copies)
        self.choice = None
        head, order = layers[-1], torch.cat([kept[layers[-1].reads] for kept in parts])
        columns = (order.unsqueeze(1) * head.places + torch.arange(head.places)).flatten()
        self.head = nn.Linear(len(columns), model.head.out_features, device="meta").to_empty(device="cpu")
        self.head.load_state_dict({"weight": model.head.weight[:, columns], "bias": model.head.bias})
        if model.choice is not None:
            self.choice = deepcopy(model.choice)
            self.choice.weight = model.choice.weight[:, columns]

    def forward(self, x: Tensor) -> Outputs:
        """Features and logits of a batch."""
        read = x if self.body is None else self.body(x)
        features = torch.cat([limb(read) for limb in self.limbs], 1)
        logits = self.head(features)
        return Outputs(features, logits if self.choice is None else self.choice(features, logits))


def _joined(model: Model, one: Connection) -> Tensor:
    """Which unit that a layer writes reads which: [units written, units read]."""
    weight = model.get_submodule(one.layer).get_parameter("weight").detach()
    if one.writes == HEAD and model.choice is not None:
        weight = torch.cat([weight, model.choice.weight])
    return (weight.reshape(len(weight), weight.shape[1] // one.places, -1) != 0).any(2)


def _live(layers: tuple[Connection, ...], joined: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Units that the answers depend on, by group: masks."""
    live = {one.writes: torch.full((len(joined[one.layer]),), one.writes == HEAD) for one in layers}
    found = -1
    while found != (found := sum(int(mask.sum()) for mask in live.values())):
        for one in reversed(layers):
            if one.reads != IMAGE and not one.depthwise:
                live[one.reads] |= joined[one.layer][live[one.writes]].any(0)
    for mask in live.values():
        mask[0] |= not mask.any()
    return live


def _divided(
    layers: tuple[Connection, ...], joined: Mapping[str, Tensor], live: Mapping[str, Tensor], since: int
) -> tuple[Kept, list[Kept]]:
    """The channels of a trunk of so many stages, and those of each branch that joined units make up behind it."""
    shared = {one.writes for one in layers if one.stage < since and one.writes != HEAD}
    trunk = {group: live[group].nonzero().squeeze(1) for group in shared}
    groups = [group for group in live if group not in shared and group != HEAD]
    first, count = {}, 0
    for group in groups:
        first[group], count = count, count + len(live[group])
    edges = [torch.empty(2, 0, dtype=torch.int64)]
    for one in layers:
        if one.reads in first and one.writes in first and not one.depthwise:
            both = joined[one.layer] & live[one.writes].unsqueeze(1) & live[one.reads]
            edges.append(both.nonzero().T + torch.tensor([[first[one.writes]], [first[one.reads]]]))
    rows, columns = torch.cat(edges, 1).numpy()
    graph = coo_array((torch.ones(len(rows)).numpy(), (rows, columns)), shape=(count, count))
    labels = torch.from_numpy(connected_components(graph, directed=False)[1]).long()
    own = {group: labels[first[group] : first[group] + len(live[group])] for group in groups}
    kinds = {group: {*own[group][live[group]].tolist()} for group in groups}
    whole = sorted(set.intersection(*kinds.values()))  # branches with a channel in every group
    number = torch.zeros(int(labels.max()) + 1, dtype=torch.int64)  # all others go with the first
    number[whole] = torch.arange(len(whole))
    parts = [
        {group: (live[group] & (number[own[group]] == part)).nonzero().squeeze(1) for group in groups}
        for part in range(max(1, len(whole)))
    ]
    return trunk, parts


def _cost(
    layers: tuple[Connection, ...], joined: Mapping[str, Tensor], macs: Mapping[str, int], trunk: Kept, kept: Kept
) -> float:
    """Multiply-adds of the layers that write these channels."""
    found, known = 0.0, trunk | kept
    for one in layers:
        if one.writes in kept:
            rows, columns = joined[one.layer].shape
            read = columns if one.reads == IMAGE or one.depthwise else len(known[one.reads])
            found += macs[one.layer] * len(kept[one.writes]) * read / (rows * columns)
    return found
