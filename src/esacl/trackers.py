"""Other people's trackers, fed with the lines of a run's event log."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from esacl.artifacts import RunDirectory
from esacl.errors import ConfigError
from esacl.training.events import EpochDone, Event, TaskDone, TaskStarted


def check_tensorboard() -> None:
    """Refuse where TensorBoard is not installed, before anything is trained."""
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "--tensorboard needs the package 'tensorboard', which is not installed. Install it with: "
            "pip install 'esacl[tensorboard]'"
        )


class TensorBoard:
    """Scalars of a run: loss and learning rate by epoch, accuracies and density by task.

    Written anew from the log when a run is continued, so that nothing is there twice.
    """

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder))
        self._epochs = 0
        self._stages = 0

    def tell(self, event: Event) -> None:
        """Write what an event says; steps say nothing that is kept."""
        if isinstance(event, TaskStarted):
            self._stages = event.tasks
        elif isinstance(event, EpochDone):
            self._epochs += 1
            self._add("train/loss", event.loss, self._epochs)
            self._add("train/learning rate", event.lr, self._epochs)
        elif isinstance(event, TaskDone):
            self._task(event, event.task + 1)

    def _task(self, event: TaskDone, number: int) -> None:
        rows = {"Task-IL": event.accuracies.task_il, "Class-IL": event.accuracies.class_il or ()}
        for title, shares in rows.items():
            known = shares[:number] if self._stages > 1 else shares
            for task, share in enumerate(known, start=1):
                self._add(f"{title}/task {task}", share, number)
            if known:
                self._add(f"accuracy/{title}", sum(known) / len(known), number)
        self._add("density", event.density, number)

    def _add(self, tag: str, value: float, step: int) -> None:
        self._writer.add_scalar(tag, value, step)

    def close(self) -> None:
        """Bring everything to the disk."""
        self._writer.close()


@contextmanager
def tensorboard(directory: RunDirectory) -> Iterator[TensorBoard]:
    """TensorBoard files in a run's directory, with all that its log holds so far."""
    directory.clear_tensorboard()
    board = TensorBoard(directory.tensorboard)
    try:
        for event in directory.read_events():
            board.tell(event)
        yield board
    finally:
        board.close()
