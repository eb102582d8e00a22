"""What a training loop tells as it goes; whoever iterates over it decides what to do with that."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from esacl.documents import Amount, Count, Positive, as_record
from esacl.training.evaluate import Accuracies


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A task begins."""

    task: Count
    tasks: Positive  # that are learnt in turn
    classes: tuple[Count, ...]  # columns of its classes
    examples: Count  # to learn from, with what is remembered where that is mixed in


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

    task: Count
    phase: str
    epoch: Count
    epochs: Count
    loss: float
    samples: Count
    lr: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Pruned:
    """A task has ended and its weights were pruned."""

    task: Count
    density: Amount  # share of the prunable weights in use from now on
    before: Accuracies | None  # before that, where `train.unpruned` asks for it


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task has ended and every task was evaluated; the trainer's state may be saved now."""

    task: Count
    accuracies: Accuracies
    density: Amount  # share of the prunable weights in use


Logged = TaskStarted | EpochDone | Pruned | TaskDone
Event = Logged | StepDone

KINDS: dict[type[Logged], str] = {TaskStarted: "start", EpochDone: "epoch", Pruned: "pruned", TaskDone: "task"}
"""Events that are worth a line in a log, and what they are called there: all but steps."""


def as_json(event: Logged) -> dict[str, Any]:
    """An event as plain values, with its kind."""
    values = asdict(event)
    accuracies = values.pop("accuracies", {})
    return {"event": KINDS[type(event)], **values, **accuracies}


def from_json(line: Any) -> Logged | None:
    """The event that `as_json` wrote; None for one of another kind, and ValueError where it is no event."""
    values = as_record(line, dict[str, Any])
    found = as_record(values.get("event"), str)
    kind = next((kind for kind, name in KINDS.items() if name == found), None)
    return None if kind is None else as_record({"accuracies": values, **values}, kind)
