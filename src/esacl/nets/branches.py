"""A network as a trunk and branches: ranges of channels that are called, trained and charged by themselves.

The first stages are the trunk. Behind it every branch has a range of channels of its own in each group of units, and
reads the trunk and itself only. All other weights are zero, so what is stored is an ordinary network; but a call runs
the trunk once and each branch that is asked for, at its own width.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from esacl.nets.cache import digest_of
from esacl.nets.connections import HEAD, IMAGE, Connection, connections
from esacl.nets.network import Network
from esacl.types import Outputs, Params

Spans = dict[str, tuple[int, int]]
"""The range of channels in each group of units: the first, and the one after the last."""

TRUNK = -1  # the trunk's number among the branches
BODY = "backbone."


class Branches:
    """Which channels belong to whom, and calls of just those."""

    def __init__(self, net: Network, stages: int, trunk: Spans) -> None:
        self.net = net
        self.stages = stages  # of the trunk
        self.layers = connections(net.model)
        self.spans: dict[int, Spans] = {TRUNK: trunk}
        self.learnt: frozenset[int] = frozenset()  # whose weights a step moves
        self._unit = {  # multiply-adds of an example for each pair of a channel written and one read
            one.layer: net.meter.layers[one.layer] // net.stored[one.weight].shape[:2].numel() for one in self.layers
        }
        modules = dict(net.model.named_modules())
        self._norms: dict[bool, list[nn.Module]] = {True: [], False: []}  # of the trunk, of the branches
        for one in self.layers:
            if one.norm is not None:
                self._norms[one.writes in trunk].append(modules[one.norm])
        self._ready: dict[int, Params] = {}
        self._costs: dict[int, tuple[int, int]] = {}  # multiply-adds of an example, there and back
        self._trunk = ""  # digest of its weights, where they move no more

    @property
    def count(self) -> int:
        """Branches so far."""
        return len(self.spans) - 1

    @property
    def head(self) -> Connection:
        """The layer that all branches write together."""
        return self.layers[-1]

    def own(self, owner: int) -> list[Connection]:
        """Layers of the trunk, or of a branch with its columns of the head."""
        return [one for one in self.layers if (one.writes in self.spans[TRUNK]) == (owner == TRUNK)]

    def pieces(self, owner: int) -> dict[str, tuple[slice, ...]]:
        """Where the weights and statistics of the trunk or of a branch are, by name."""
        found: dict[str, tuple[slice, ...]] = {}
        known = {*self.net.stored, *(name for name, _ in self.net.model.named_buffers())}
        for one in self.own(owner):
            rows = slice(None) if one.writes == HEAD else slice(*self.spans[owner][one.writes])
            found[one.weight] = rows, self._read(one, owner)
            if one.writes != HEAD:
                named = (f"{one.layer}.bias", *(f"{one.norm}.{own}" for own in _NORM))
                found |= {name: (rows,) for name in named if name in known}
        return found

    def _read(self, layer: Connection, owner: int) -> slice:
        """Columns that a layer reads: all of the image, all of the trunk, or its branch's."""
        if layer.reads == IMAGE:
            return slice(None)
        return slice(*(self.spans[TRUNK].get(layer.reads) or self.spans[owner][layer.reads]))

    def values(self, owner: int) -> Params:
        """Weights and statistics of the trunk or of a branch: views into what is stored."""
        state = self.net.stored | dict(self.net.model.named_buffers())
        return {name: state[name].detach()[place] for name, place in self.pieces(owner).items()}

    def prepare(self, learnt: Collection[int]) -> None:
        """From now on steps move the weights of these and the head's bias; all others only answer."""
        self.learnt = frozenset(learnt)
        self._ready = {owner: self.values(owner) for owner in self.spans}
        self._costs = {owner: self._cost(owner) for owner in self.spans}
        self._trunk = "" if TRUNK in learnt else digest_of(self._ready[TRUNK])
        trained: Params = {}
        for owner, values in self._ready.items():
            for name, value in values.items():
                if owner not in learnt and value.ndim == 4:  # never moves: convolutions want it in one piece
                    values[name] = value.contiguous(memory_format=self.net.layout)
                elif owner in learnt and name in self.net.stored:
                    trained[name] = value.requires_grad_()
        if trained:
            trained["head.bias"] = self.net.stored["head.bias"]
        self.net.narrowed = trained

    def __call__(self, x: Tensor, asked: Iterable[int]) -> Outputs:
        """Features and logits from the branches that are asked for; features of others are zero."""
        asked = sorted(asked)
        ran = [TRUNK, *asked]
        if self.stages and self._trunk:
            body, rows = self.net.cache.answers(self._trunk, x, lambda part: self._run(TRUNK, part, 0, self.stages))
            self.net.meter.charge(rows * self._costs[ran.pop(0)][0])
        else:
            body = self._run(TRUNK, x, 0, self.stages) if self.stages else x
        self.net.meter.count_parts(len(x), *(sum(costs) for costs in zip(*(self._costs[owner] for owner in ran))))
        last = self.head.reads
        features = [x.new_zeros(len(x), 0)]
        logits = self.net.stored["head.bias"]
        for owner in asked:
            first, after = self.spans[owner][last]
            answered = self._run(owner, body, self.stages, None)
            gap = first - sum(part.shape[1] for part in features)
            features += [x.new_zeros(len(x), gap), answered]
            logits = logits + linear(answered, self._ready[owner][self.head.weight])
        rest = self.net.stored[self.head.weight].shape[1] - after
        return Outputs(torch.cat([*features, x.new_zeros(len(x), rest)], 1), logits)

    def _run(self, owner: int, x: Tensor, since: int, until: int | None) -> Tensor:
        """Stages of the backbone with the weights of the trunk or of a branch; without gradients unless it learns."""
        learns = owner in self.learnt
        values = {name.removeprefix(BODY): value for name, value in self._ready[owner].items() if name.startswith(BODY)}
        given = (x,) if since == 0 and until is None else (x, since) if until is None else (x, since, until)
        norms = [] if learns else self._norms[owner == TRUNK]
        with torch.set_grad_enabled(learns and torch.is_grad_enabled()), _still(norms):
            answered: Tensor = functional_call(self.net.model.backbone, values, given, tie_weights=False)
        return answered

    def _cost(self, owner: int) -> tuple[int, int]:
        """Multiply-adds of an example: there, and back for weights that learn and inputs that depend on such."""
        forward = backward = 0
        for one in self.own(owner):
            macs = self._unit[one.layer] * self._ready[owner][one.weight].shape[:2].numel()
            forward += macs
            if owner in self.learnt:
                source = TRUNK if one.reads in self.spans[TRUNK] else owner
                backward += macs * (1 + (one.reads != IMAGE and source in self.learnt))
        return forward, backward


_NORM = ("weight", "bias", "running_mean", "running_var")


@contextmanager
def _still(norms: list[nn.Module]) -> Iterator[None]:
    """These go on with the statistics that they have, as in evaluation mode."""
    modes = [norm.training for norm in norms]
    for norm in norms:
        norm.training = False
    try:
        yield
    finally:
        for norm, training in zip(norms, modes):
            norm.training = training
