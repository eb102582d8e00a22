"""What the tests of the sharpness-aware gradient share."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from esacl.nets import Network
from esacl.objectives.base import Objective
from esacl.objectives.derpp import Derpp, DerppOptions
from esacl.objectives.er import Er, ErOptions
from esacl.optim.gradient import GradientRule
from esacl.optim.sharpness import SharpnessAware, SharpnessOptions
from esacl.options import NoOptions
from esacl.selection.base import DataSelector
from esacl.types import Batch, Replay, Trace
from tests.builders import batch, context, network, outputs_of, stream

STREAM = stream(augment=True)


BOTH = torch.arange(8)


SETS = [(None, None), ([0, 3, 6], None), (None, [1, 2, 5, 7]), ([0, 3, 6], [1, 2, 5, 7])]


class Given(DataSelector):
    """Rows that were given."""

    def __init__(self, support: list[int] | None = None, update: list[int] | None = None, ranking: str = "none"):
        super().__init__(NoOptions(), context())
        self.sets = [None if rows is None else torch.tensor(rows) for rows in (support, update)]
        self.wishes = ranking

    @property
    def ranking(self) -> str:
        return self.wishes

    def support_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        assert fit is not None or self.wishes == "none"
        return self.sets[0]

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        assert fit is not None or self.wishes == "none"
        return self.sets[1]


class Noting(Er):
    """Experience replay that writes down what it replays."""

    def __init__(self, options: Any, known: Any) -> None:
        super().__init__(options, known)
        self.replayed: list[Tensor] = []

    def draw(self) -> Replay:
        replay = super().draw()
        self.replayed.append(replay.x)
        return replay


def rule(rho: float = 0.1, **options: Any) -> SharpnessAware:
    return SharpnessAware(SharpnessOptions(rho, **options), context())


def plain() -> GradientRule:
    return GradientRule(NoOptions(), context())


def nothing() -> Objective:
    return Objective(NoOptions(), context())


def replaying(kind: type[Er] = Er, how: Literal["joint", "apart"] = "joint") -> Er:
    """An objective in its second task, whose memory is full."""
    options = DerppOptions(8, 4, how) if kind is Derpp else ErOptions(8, 4, how)
    part = kind(options, context(STREAM))
    examples = batch(12, STREAM)
    logits = torch.arange(72).view(12, 6) / 20
    part.after_step(network(), Trace(examples, outputs_of(logits), torch.zeros(12), torch.zeros(()), 12))
    part.begin_task(network(), STREAM.tasks[1])
    return part


def fit_of(net: Network, examples: Batch, rows: list[int] | None = None) -> Callable[[nn.Module], Tensor]:
    part = examples if rows is None else examples.take(torch.tensor(rows))
    return lambda model: cross_entropy(model(part.x.contiguous(memory_format=net.layout)).logits, part.y)


def joint_of(
    net: Network, examples: Batch, rows: list[int] | None, replay: Replay, apart: bool = False
) -> Callable[[nn.Module], Tensor]:
    """Cross-entropy of the rows + that of what is replayed with them, in one pass or in two."""
    part = examples if rows is None else examples.take(torch.tensor(rows))

    def loss(model: nn.Module) -> Tensor:
        groups = [part.x, replay.x] if apart else [torch.cat([part.x, replay.x])]
        logits = torch.cat([model(x.contiguous(memory_format=net.layout)).logits for x in groups])
        return cross_entropy(logits[: len(part)], part.y) + cross_entropy(logits[len(part) :], replay.y)

    return loss


def flat(net: Network) -> Tensor:
    gradients = net.gradients()
    return torch.cat([gradients[name].flatten() for name in net.stored])


def assert_near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
