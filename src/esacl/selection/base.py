"""The selection slot: which examples are worth a step."""

from typing import ClassVar

from torch import Tensor

from esacl.part import Part
from esacl.types import Trace


class DataSelector(Part):
    """Keeps everything. Subclasses choose."""

    needs_ascent: ClassVar[bool] = False  # whether it selects for an ascent step

    def epoch_subset(self, examples: int, epoch: int) -> Tensor | None:
        """Positions of the task's examples to train on in this epoch; None for all."""
        return None

    def support_set(self, fit: Tensor) -> Tensor | None:
        """Rows of the batch for the ascent (SSE), given each example's fit loss; None for all."""
        return None

    def update_set(self, fit: Tensor) -> Tensor | None:
        """Rows of the batch for the descent (ERE), given each example's fit loss; None for all."""
        return None

    def begin_task(self, examples: int) -> None:
        """A task of so many examples starts."""

    def observe(self, trace: Trace) -> None:
        """See what a step computed."""


class KeepAll(DataSelector):
    """Every example, every epoch."""
