"""Training that has left the numbers: said in one line, with what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import torch

from esacl.errors import Diverged

Unsolvable: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
"""What torch raises where a matrix has no inverse, or no eigenvalues that can be found."""


def check_loss(loss: float, task: int, epoch: int, remedy: str) -> None:
    """Stop where the loss of an epoch is no number."""
    if not isfinite(loss):
        raise Diverged(f"training diverged: the loss of task {task + 1}, epoch {epoch + 1} is {loss}.", remedy=remedy)


@contextmanager
def solvable(task: int, remedy: str) -> Iterator[None]:
    """What is fitted when a task ends has a solution, unless its features are too large for numbers."""
    try:
        yield
    except Unsolvable as error:
        why = " ".join(str(error).split())
        raise Diverged(f"training diverged: nothing can be fitted to task {task + 1} ({why}).", remedy=remedy) from None
