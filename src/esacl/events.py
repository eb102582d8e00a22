"""What `esacl.iter_run` tells: the kinds of events, in one place for whoever asks which one it is."""

from esacl.runner import Finished
from esacl.training.events import EpochDone, Pruned, StepDone, TaskDone, TaskStarted

__all__ = ["EpochDone", "Finished", "Pruned", "StepDone", "TaskDone", "TaskStarted"]
