"""A network as a trunk and branches: ranges of channels that are called, trained and charged by themselves.

The first stages are the trunk. Behind it every branch has a range of channels of its own in each group of units, and
reads the trunk and itself only. All other weights are zero, so what is stored is an ordinary network; but a call runs
the trunk once and each branch that is asked for, at its own width.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from esacl.nets.cache import digest_of
from esacl.nets.connections import HEAD, IMAGE, Connection, connections, stages_of
from esacl.nets.network import Network
from esacl.nets.widths import NEUTRAL
from esacl.types import Outputs, Params

Spans = dict[str, tuple[int, int]]
"""The range of channels in each group of units: the first, and the one after the last."""

TRUNK = -1  # the trunk's number among the branches


class Branches:
    """Which channels belong to whom, and calls of just those."""

    def __init__(self, net: Network, stages: int, trunk: Spans) -> None:
        self.net = net
        self.stages = stages  # of the trunk
        divided = stages_of(net.model)
        self.layers = connections(net.model, divided)
        self._body = divided.part(0, stages) if stages else None
        self._limb = divided.part(stages, len(divided.starts))  # of any branch, whose widths are those of its values
        self.spans: dict[int, Spans] = {TRUNK: trunk}
        self.learnt: frozenset[int] = frozenset()  # whose weights a step moves
        self._unit = {  # multiply-adds of an example for each pair of a channel written and one read
            one.layer: net.meter.layers[one.layer] // net.stored[one.weight].shape[:2].numel() for one in self.layers
        }
        modules = dict(net.model.named_modules())
        self._norms: dict[bool, list[nn.Module]] = {True: [], False: []}  # of the trunk, of the branches
        for one in self.layers:
            self._norms[one.writes in trunk] += [modules[norm] for norm in one.norms]
        self._depthwise = {one.weight: modules[one.layer] for one in self.layers if one.depthwise}
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
                named = (f"{one.layer}.bias", *(f"{norm}.{own}" for norm in one.norms for own in NEUTRAL))
                found |= {name: (rows,) for name in named if name in known}
        return found

    def _read(self, layer: Connection, owner: int) -> slice:
        """Columns that a layer reads: all of the image, all of the trunk, or its branch's."""
        if layer.reads == IMAGE or layer.depthwise:
            return slice(None)
        first, after = self.spans[TRUNK].get(layer.reads) or self.spans[owner][layer.reads]
        return slice(first * layer.places, after * layer.places)

    @torch.no_grad()
    def clear(self) -> None:
        """Let all channels be silent: zeros, and neutral BatchNorm."""
        state = self.net.model.state_dict()
        for one in self.layers:
            for name in (one.weight, f"{one.layer}.bias"):
                if name in state:
                    state[name].zero_()
            for name, neutral in ((f"{norm}.{own}", neutral) for norm in one.norms for own, neutral in NEUTRAL.items()):
                if name in state:
                    state[name].fill_(neutral)

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
        if self._body is None:
            body = x
        elif self._trunk:
            body, rows = self.net.cache.answers(self._trunk, x, partial(self._run, TRUNK, self._body))
            self.net.meter.charge(rows * self._costs[ran.pop(0)][0])
        else:
            body = self._run(TRUNK, self._body, x)
        self.net.meter.count_parts(len(x), *(sum(costs) for costs in zip(*(self._costs[owner] for owner in ran))))
        last = self.head.reads
        features = [x.new_zeros(len(x), 0)]
        logits = self.net.stored["head.bias"]
        for owner in asked:
            first, after = (bound * self.head.places for bound in self.spans[owner][last])
            answered = self._run(owner, self._limb, body)
            gap = first - sum(part.shape[1] for part in features)
            features += [x.new_zeros(len(x), gap), answered]
            logits = logits + linear(answered, self._ready[owner][self.head.weight])
        rest = self.net.stored[self.head.weight].shape[1] - after
        return Outputs(torch.cat([*features, x.new_zeros(len(x), rest)], 1), logits)

    def _run(self, owner: int, part: nn.Module, x: Tensor) -> Tensor:
        """A part of the backbone with the weights of the trunk or of a branch; without gradients unless it learns."""
        learns = owner in self.learnt
        values = {name: value for name, value in self._ready[owner].items() if name != self.head.weight}
        norms = [] if learns else self._norms[owner == TRUNK]
        depthwise = [(self._depthwise[name], len(value)) for name, value in values.items() if name in self._depthwise]
        with torch.set_grad_enabled(learns and torch.is_grad_enabled()), _still(norms), _narrow(depthwise):
            answered: Tensor = functional_call(part, values, (x,), tie_weights=False)
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


@contextmanager
def _narrow(convolutions: list[tuple[nn.Conv2d, int]]) -> Iterator[None]:
    """These depthwise convolutions have so many channels."""
    groups = [convolution.groups for convolution, _ in convolutions]
    for convolution, channels in convolutions:
        convolution.groups = channels
    try:
        yield
    finally:
        for (convolution, _), before in zip(convolutions, groups):
            convolution.groups = before
