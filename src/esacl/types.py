"""Records that flow through a step, shared by every layer."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

Params = dict[str, Tensor]
Columns = Literal["all", "task", "seen"]  # rule of training columns: see esacl.columns
State = dict[str, Any]  # what state_dict() returns: nested dicts and lists of tensors and plain values


UNKNOWN_TASKS = 2**31  # tasks to come, where nobody knows: no task is the last


class Outputs(NamedTuple):
    """What the network answers: features before the head, and one logit per class of the stream."""

    features: Tensor
    logits: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples of one step."""

    views: tuple[Tensor, ...]  # n_views × [B, C, H, W] float, augmented and normalised
    raw: Tensor  # [B, C, H, W] as stored (uint8 for images): what buffers keep
    y: Tensor  # [B] column of the true class
    task: Tensor  # [B] task of the true class
    index: Tensor  # [B] position in the task's training examples
    drawn: Tensor | None = None  # labels of the batch that this is a part of; None for a whole one

    def __len__(self) -> int:
        return len(self.y)

    @property
    def x(self) -> Tensor:
        """The first view."""
        return self.views[0]

    @property
    def inputs(self) -> Tensor:
        """All views, one after the other: [views · B, C, H, W]."""
        return self.views[0] if len(self.views) == 1 else torch.cat(self.views)

    def take(self, rows: Tensor) -> "Batch":
        """The examples at `rows`."""
        views = tuple(view[rows] for view in self.views)
        drawn = self.y if self.drawn is None else self.drawn
        return Batch(views, self.raw[rows], self.y[rows], self.task[rows], self.index[rows], drawn)


@dataclass(frozen=True, slots=True)
class Replay:
    """Examples drawn from a memory for one step."""

    x: Tensor
    y: Tensor
    logits: Tensor | None = None  # stored with them
    apart: bool = False  # called by themselves, not in one pass with the batch
    outputs: Outputs | None = None  # what the network answers to `x`, once it was called

    def part(self, share: float) -> "Replay":
        """The first rows that make up a share of it: of both halves, where only the first has stored logits."""
        stored = len(self.y) if self.logits is None else len(self.logits)
        count = max(1, round(share * stored))
        rows = torch.cat([torch.arange(first, first + count) for first in range(0, len(self.y), stored)])
        rows = rows.to(self.y.device)
        logits = None if self.logits is None else self.logits[:count]
        return Replay(self.x[rows], self.y[rows], logits, self.apart)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a step computed at θ; nobody computes it again."""

    batch: Batch
    outputs: Outputs  # detached; of all views where all rows were seen, else of the first
    fit: Tensor  # detached fit loss of each example that was seen
    loss: Tensor  # [] detached: what was minimised
    updated: int  # examples of the batch in the update set
    rows: Tensor | None = None  # rows of the batch that were seen, in the order of `outputs` and `fit`; None for all

    def logits(self, rows: Tensor) -> Tensor:
        """Logits at θ of rows of the batch, in their first view."""
        if self.rows is not None:
            place = torch.full_like(self.batch.y, -1)
            place[self.rows] = torch.arange(len(self.rows), device=place.device)
            rows = place[rows]
        return self.outputs.logits[rows]


class Inputs(Protocol):
    """Turns stored examples into what the network reads."""

    @property
    def augments(self) -> bool:
        """Whether `augmented` differs from `plain`."""
        ...

    def plain(self, raw: Tensor) -> Tensor:
        """Normalised, not augmented."""
        ...

    def augmented(self, raw: Tensor, key: int, index: Tensor) -> Tensor:
        """Augmented by a transformation that depends on (key, index) only, then normalised."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What every part may know about the run it belongs to; fixed before training."""

    classes: int
    tasks: int
    batch_size: int
    epochs: int  # of the present task, where a budget decides
    seed: int
    fit_loss: str  # ce, or ace: the classes of the batch compete
    device: torch.device
    inputs: Inputs
    task_classes: tuple[tuple[int, ...], ...] = ()  # columns of each task, as it is trained
    memory: bool = True  # whether examples of earlier classes are at hand when a task ends
    columns: Columns = "all"  # that compete in the loss of an example: all, task, seen
    copies: int = 0  # augmented copies of a remembered example; 0: a new one each time
    epoch_part: float = 1.0  # of a task's batches that an epoch trains on, where a budget pays for no more

    def returning(self, task: int) -> set[int]:
        """Columns of a task that an earlier one has as well.

        >>> Context(3, 2, 1, 1, 0, "ce", None, None, ((0, 1), (1, 2))).returning(1)
        {1}
        """
        earlier = {column for columns in self.task_classes[:task] for column in columns}
        return earlier & {*self.task_classes[task]} if task < len(self.task_classes) else set()

    @property
    def shares_classes(self) -> bool:
        """Whether some class is in several tasks."""
        return any(self.returning(task) for task in range(len(self.task_classes)))
