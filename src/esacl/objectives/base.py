"""The objective slot: what is minimised and what is remembered."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from esacl.columns import MASKED, TrainingColumns
from esacl.errors import ConfigError
from esacl.nets.network import Network
from esacl.part import Part
from esacl.streams.base import Examples, Task
from esacl.types import Batch, Context, Outputs, Replay, State, Trace


class Objective(Part):
    """Per-example fit loss + retention term. Subclasses override what they need; the rest does nothing."""

    views: int = 1  # augmented views of each example that the objective reads
    trains: ClassVar[bool] = True  # whether there is anything to minimise: else the network stays as it is
    trains_head: ClassVar[bool] = True  # whether its losses read the logits
    joint: ClassVar[bool] = False  # whether all tasks are trained at once
    protects: ClassVar[bool] = False  # whether it keeps the network near what it was, without examples of earlier tasks

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        if context.columns == "task" and any(len(columns) == 1 for columns in context.task_classes):
            raise ConfigError(
                "{given} lets the classes of a task compete with one another, but a task has one class only.",
                "train.columns",
                "task",
                remedy="Use {train.columns:seen} or {train.columns:all}, or tasks of at least two classes "
                "({stream.classes_per_task:2}).",
            )
        self.task = 0
        self._columns = TrainingColumns(context)

    def fit_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Loss of each example on its own label; pure, so that data selection can rank by it.

        Training columns and asymmetric cross-entropy are applied here, the same for every method: what both admit
        competes. Current examples compete among the classes of the batch, remembered ones in it among all.
        """
        logits = self.competing(outputs.logits, batch.y)
        if self.context.fit_loss == "ace":
            absent = torch.ones(logits.shape[1], dtype=torch.bool, device=batch.y.device)
            absent[batch.y if batch.drawn is None else batch.drawn] = False
            current = torch.ones_like(batch.task, dtype=torch.bool) if self.joint else batch.task >= self.task
            hidden = (absent & current[:, None]).repeat(len(logits) // len(batch), 1)
            logits = logits.masked_fill(hidden, MASKED)
        return self.example_loss(Outputs(outputs.features, logits), batch)

    def competing(self, logits: Tensor, y: Tensor) -> Tensor:
        """Logits of examples with these labels, current or replayed, with all but their training columns masked."""
        last = len(self.context.task_classes) - 1 if self.joint else self.task
        return self._columns.compete(logits, y, last)

    def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """[B] loss of each example: cross-entropy unless a method says otherwise."""
        return torch.nn.functional.cross_entropy(outputs.logits, batch.y, reduction="none")

    def rehearse(self) -> Replay | None:
        """Remembered examples for the next step, drawn anew; None without any.

        The gradient rule calls the network with them and hands the answers to `retain_loss`.
        """
        return None

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """Penalty, distillation or replay; None where there is nothing to retain yet."""
        return None

    def rows_to_store(self, batch: Batch) -> Tensor | None:
        """Rows of the batch whose outputs at θ `after_step` will need, whatever data selection trains on.

        Asked at most once a step, and only where some rows would not be seen otherwise.
        """
        return None

    def training_set(self, task: Task) -> Examples:
        """What a task trains on; may depend only on state that stays the same during the task."""
        return task.train

    def mixed_in(self, earlier: Sequence[Task]) -> int:
        """Remembered examples in the training set of the task after these."""
        return 0

    def buffer_examples(self) -> Examples | None:
        """Stored examples, for readouts and for statistics after pruning; None without any."""
        return None

    @classmethod
    def remembers(cls) -> bool:
        """Whether it stores examples."""
        return cls.buffer_examples is not Objective.buffer_examples

    def memory_batch(self, count: int) -> tuple[Tensor, Tensor] | None:
        """Inputs and labels of remembered examples; None without a memory of earlier tasks."""
        return None

    def begin_task(self, net: Network, task: Task) -> None:
        """A task starts."""
        self.task = task.index

    def after_step(self, net: Network, trace: Trace) -> None:
        """A step was taken; the trace holds what was computed before it, at θ."""

    def end_task(self, net: Network, task: Task) -> None:
        """A task has ended: consolidate (the network is already pruned)."""

    def state_dict(self) -> State:
        """Everything that later tasks depend on."""
        return {"task": self.task}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.task = state["task"]
