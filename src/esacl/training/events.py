"""What a training loop tells as it goes; whoever iterates over it decides what to do with that."""

from dataclasses import dataclass

from torch import Tensor

from esacl.training.evaluate import Accuracies


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
class TaskDone:
    """A task has ended and every task was evaluated; the trainer's state may be saved now."""

    task: int
    accuracies: Accuracies


Event = StepDone | EpochDone | TaskDone
