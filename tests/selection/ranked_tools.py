"""Selectors and batches that the tests of ranked selection share."""

from typing import Any

import torch
from torch import Tensor

from esacl.optim.gradient import GradientRule
from esacl.optim.sharpness import SharpnessAware, SharpnessOptions
from esacl.options import NoOptions
from esacl.selection.ranked import Ranked, RankedOptions
from esacl.types import Batch, Trace
from tests.builders import context, outputs_of

EVERY_RULE = [("random", "stale"), ("loss", "pass"), ("loss", "reuse"), ("loss", "stale")]


def selector(keep: float = 0.5, seed: int = 0, tasks: int = 1, examples: int = 24, **options: Any) -> Ranked:
    """In its last task of so many, of so many examples."""
    part = Ranked(RankedOptions(keep, **options), context(seed=seed))
    for _ in range(tasks):
        part.begin_task(examples)
    return part


def rows_of(chosen: Tensor | None) -> list[int]:
    assert chosen is not None
    return chosen.tolist()


def trace_of(examples: Batch, losses: Tensor, rows: Tensor | None = None) -> Trace:
    return Trace(examples, outputs_of(torch.zeros(len(losses), 6)), losses, torch.zeros(()), len(losses), rows)


def of_size(size: int) -> Batch:
    """Examples that only tell which ones they are."""
    nothing = torch.zeros(size, 1, 1, 1)
    return Batch((nothing,), nothing, torch.zeros(size).long(), torch.zeros(size).long(), torch.arange(size))


def gradient_rule(ascends: bool) -> GradientRule:
    return SharpnessAware(SharpnessOptions(0.1), context()) if ascends else GradientRule(NoOptions(), context())
