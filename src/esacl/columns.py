"""Training columns: which columns of the head compete in the loss of a labelled example."""

import torch
from torch import Tensor

from esacl.types import Context

MASKED = -1e4  # a logit that no softmax sees, finite in every precision


class TrainingColumns:
    """The rule of a run, the same for current and for replayed examples.

    `all`: every column of the head; `seen`: the classes of the tasks so far; `task`: the classes of the example's own
    task. A class of several tasks belongs to the last of them that has begun.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owner: tuple[int, Tensor] | None = None  # the last task asked for, and the task of each column then

    def compete(self, logits: Tensor, y: Tensor, task: int) -> Tensor:
        """Logits of examples with labels `y` while `task` is learnt, without the columns that do not compete.

        Several views of the examples may stand one after the other.
        """
        rule = self._context.columns
        if rule == "all":
            return logits
        owner = self._owners(task)
        outside = owner < 0 if rule == "seen" else owner[y].unsqueeze(1) != owner
        if rule == "task" and len(logits) > len(y):
            outside = outside.repeat(len(logits) // len(y), 1)
        return logits.masked_fill(outside, MASKED)

    def _owners(self, task: int) -> Tensor:
        """The task of each column, among those that have begun; -1 for columns of none of them."""
        if self._owner is None or self._owner[0] != task:
            owner = torch.full((self._context.classes,), -1)
            for index, columns in enumerate(self._context.task_classes[: task + 1]):
                owner[list(columns)] = index
            self._owner = task, owner.to(self._context.device)
        return self._owner[1]
