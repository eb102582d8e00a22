"""The selection slot: which examples are worth a step."""

from torch import Tensor

from esacl.part import Part
from esacl.types import Batch, Trace


class DataSelector(Part):
    """Keeps everything. Subclasses choose."""

    @property
    def ranking(self) -> str:
        """Where fresh fit losses of a batch come from: an extra "pass" without gradients, "reuse" of the pass with
        gradients over the whole batch, or "none" where the choice does not need them.
        """
        return "none"

    @property
    def kept_share(self) -> float:
        """Share of a task's examples that its steps learn from, over all epochs."""
        return 1.0

    def epoch_subset(self, examples: int, epoch: int) -> Tensor | None:
        """Positions of the task's examples to train on in this epoch; None for all."""
        return None

    def support_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        """Rows of the batch for the ascent (SSE), given each example's fit loss if it was asked for; None for all."""
        return None

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        """Rows of the batch for the descent (ERE), given each example's fit loss if it was asked for; None for all."""
        return None

    def weights(self, batch: Batch, rows: Tensor | None) -> Tensor | None:
        """Weight of the loss of each chosen row in the mean over the batch; None where all weigh the same."""
        return None

    def begin_task(self, examples: int) -> None:
        """A task of so many examples starts."""

    def observe(self, trace: Trace) -> None:
        """See what a step computed."""


class KeepAll(DataSelector):
    """Every example, every epoch."""
