"""Parts and steps that the tests of a step share."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from esacl.nets import Network
from esacl.optim.constraint import StepConstraint
from esacl.options import NoOptions
from esacl.part import Part
from esacl.sparsity.base import SparsityStrategy
from esacl.training.parts import Parts
from esacl.training.step import train_step
from esacl.types import Params
from tests.builders import batch, context, parts, stream

FROZEN = "backbone.first.weight"


BLOCK = (slice(0, 5), slice(3, 20))  # the part of it that is frozen


class FreezesBlock:
    """Keeps a block of the first layer and all biases of the second as they were."""

    def constrained(self) -> Collection[str]:
        return (FROZEN, "backbone.second.bias")

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        if name != FROZEN:
            return before
        mended = after.clone()
        mended[BLOCK] = before[BLOCK]
        return mended


class FreezingConstraint(FreezesBlock, StepConstraint):
    pass


class FreezingStrategy(FreezesBlock, SparsityStrategy):
    pass


class Watching(SparsityStrategy):
    observes_gradients = True

    def __init__(self, options: Any, known: Any) -> None:
        super().__init__(options, known)
        self.seen: list[tuple[Params, Params]] = []

    def observe_gradients(self, gradients: Params, memory: Callable[[], Params]) -> None:
        self.seen.append(({name: g.clone() for name, g in gradients.items()}, memory()))


def compose(slot: str, kind: type[Part], method: str = "er") -> Parts:
    return parts(method, replacing={slot: kind(NoOptions(), context())})


def optimizer_of(net: Network) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.05)


def take_steps(net: Network, composed: Parts, count: int = 5) -> None:
    optimizer = optimizer_of(net)
    composed.objective.begin_task(net, stream().tasks[0])
    for k in range(count):
        if k == 2:
            composed.objective.begin_task(net, stream().tasks[1])
        train_step(net, composed, optimizer, batch(task=min(k // 2, 1), start=k))
