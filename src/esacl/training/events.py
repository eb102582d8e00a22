"""What a training loop tells as it goes; whoever iterates over it decides what to do with that."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from esacl.training.evaluate import Accuracies


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A task begins."""

    task: int
    tasks: int  # that are learnt in turn
    classes: tuple[int, ...]  # columns of its classes
    examples: int  # to learn from, with what is remembered where that is mixed in


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step was taken."""

    task: int
    phase: str
    epoch: int
    epochs: int
    samples: int
    loss: Tensor  # on the device: reading it may wait for the step


@dataclass(frozen=True, slots=True)
class EpochDone:
    """An epoch has ended; the trainer's state may be saved now."""

    task: int
    phase: str
    epoch: int
    epochs: int
    loss: float
    samples: int
    lr: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Pruned:
    """A task has ended and its weights were pruned."""

    task: int
    density: float  # share of the prunable weights in use from now on
    before: Accuracies | None  # before that, where `train.unpruned` asks for it


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task has ended and every task was evaluated; the trainer's state may be saved now."""

    task: int
    accuracies: Accuracies
    density: float  # share of the prunable weights in use


Event = TaskStarted | StepDone | EpochDone | Pruned | TaskDone

KINDS = {TaskStarted: "start", EpochDone: "epoch", Pruned: "pruned", TaskDone: "task"}
"""Events that are worth a line in a log, and what they are called there: all but steps."""


def as_json(event: TaskStarted | EpochDone | Pruned | TaskDone) -> dict[str, Any]:
    """An event as plain values, with its kind."""
    values = asdict(event)
    accuracies = values.pop("accuracies", {})
    return {"event": KINDS[type(event)], **values, **accuracies}
