"""Dynamic data removal (DDR; Wang et al. 2022): examples that are learnt for good leave the task's training."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor

from esacl.columns import TrainingColumns
from esacl.options import option
from esacl.part import Part
from esacl.problem import Problem
from esacl.rng import generator
from esacl.selection.base import DataSelector
from esacl.types import Context, State, Trace

PORTIONS = 4  # removed one after the other, after 10, 20, 30 and 40 % of a task's epochs


@dataclass(frozen=True, slots=True)
class RemovalOptions:
    """Settings of data removal: the published script removes 30 % of a task of Split CIFAR-10."""

    removed: float = option(0.3, "share of a task's examples that is removed while it is learnt", low=0, high=0.9)


class Removal(DataSelector):
    """Removes what was forgotten least often: went from right to wrong, since examples were last removed.

    What was never right counts as forgotten most often. Among equals chance decides; what is remembered of earlier
    tasks stays, where an objective mixes it into the training set.
    """

    Options: ClassVar[type[Any]] = RemovalOptions
    reads_logits: ClassVar[bool] = True

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """Answers of a head that nobody trains."""
        if not cls.reads_logits or getattr(parts["objective"], "trains_head", True):
            return None
        return Problem(
            "removal counts wrong answers, but {objective} trains no head to answer with.",
            remedy="Use {parts.selection:loss-removal}.",
            objective=parts["objective"].__name__,
        )

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.task = -1
        self._columns = TrainingColumns(context)
        self._forget(0)

    def _forget(self, examples: int) -> None:
        """Nothing is known of so many examples."""
        self.kept = torch.ones(examples, dtype=torch.bool)
        self.own = torch.zeros(examples, dtype=torch.bool)  # seen, and of this task
        self.right = torch.zeros(examples, dtype=torch.bool)  # when last seen
        self.learnt = torch.zeros(examples, dtype=torch.bool)  # since the last removal
        self.lapses = torch.zeros(examples)  # since the last removal

    def begin_task(self, examples: int) -> None:
        """Nothing of the new task was seen."""
        self.task += 1
        self._forget(examples)

    def epoch_subset(self, examples: int, epoch: int) -> Tensor | None:
        """What was not removed; some more is, when an epoch starts that a portion is due at."""
        goal = round(self.options.removed * int(self.own.sum()) * self._due(epoch) / PORTIONS)
        count = goal - int((~self.kept).sum())
        if count > 0:
            self._remove(count, epoch)
        return None if self.kept.all() else self.kept.nonzero().squeeze(1)

    def _due(self, epoch: int) -> int:
        """Portions that are removed when an epoch starts."""
        return sum(10 * epoch >= portion * self.context.epochs for portion in range(1, PORTIONS + 1))

    @property
    def kept_share(self) -> float:
        """All at first, less after each portion."""
        removed = [self.options.removed * self._due(epoch) / PORTIONS for epoch in range(self.context.epochs)]
        return float(1 - sum(removed) / len(removed))

    def _remove(self, count: int, epoch: int) -> None:
        """Remove so many more, and count from here on."""
        draw = generator(self.context.seed, "removal", self.task, epoch)
        shuffled = torch.randperm(len(self.kept), generator=draw)
        scores = torch.where(self.learnt, self.lapses, inf)[shuffled]
        order = shuffled[scores.sort(stable=True).indices]
        candidates = order[(self.kept & self.own)[order]]
        self.kept[candidates[:count]] = False
        self.learnt.zero_()
        self.lapses.zero_()

    def observe(self, trace: Trace) -> None:
        """Take notice of right and wrong answers."""
        batch = trace.batch
        rows = torch.arange(len(batch), device=batch.y.device) if trace.rows is None else trace.rows
        index = batch.index[rows].cpu()
        self.own[index] = (batch.task[rows] == self.task).cpu() | (self.task == 0)
        self._note(index, trace, rows)

    def _note(self, index: Tensor, trace: Trace, rows: Tensor) -> None:
        """Count who was right before and is wrong now."""
        right = self._right(trace.logits(rows), trace.batch.y, rows).cpu()
        self.lapses[index] += (self.right[index] & ~right).float()
        self.learnt[index] |= right
        self.right[index] = right

    def _right(self, logits: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
        """Whether the largest logit is that of the label, among the columns that the loss saw."""
        logits = self._columns.compete(logits, labels[rows], self.task)
        if self.context.fit_loss == "ace":
            absent = torch.ones(logits.shape[1], dtype=torch.bool, device=logits.device)
            absent[labels] = False
            logits = logits.masked_fill(absent, -inf)
        return logits.argmax(1) == labels[rows]

    def state_dict(self) -> State:
        """What was removed, and what is known of the rest."""
        names = ("kept", "own", "right", "learnt", "lapses")
        return {"task": self.task, **{name: getattr(self, name).clone() for name in names}}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.task = state["task"]
        self.kept, self.own = state["kept"].clone().cpu(), state["own"].clone().cpu()
        self.right, self.learnt = state["right"].clone().cpu(), state["learnt"].clone().cpu()
        self.lapses = state["lapses"].clone().cpu()


class LossRemoval(Removal):
    """Removes what had the smallest fit losses since examples were last removed.

    For objectives that learn features: their logits say nothing about what is right.
    """

    reads_logits = False

    def _note(self, index: Tensor, trace: Trace, rows: Tensor) -> None:
        """Add up the losses."""
        self.lapses[index] += trace.fit.cpu()
        self.learnt[index] = True
