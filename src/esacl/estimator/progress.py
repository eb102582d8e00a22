"""What a classifier tells while it learns, if asked to: a bar with the time left."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from esacl.estimator.learner import Listen
from esacl.training.events import Event, StepDone
from esacl.training.trainer import Trainer

REFRESH = 0.1  # seconds between readings of the loss, which may wait for the device


@contextmanager
def progress(verbose: bool) -> Iterator[Listen | None]:
    """A listener that draws a bar on the terminal; None where none is wanted."""
    if not verbose:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}", style="dim"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield _LearningBar(bars)


class _LearningBar:
    """Counts examples."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._bar = bars.add_task("starting", total=None, loss="?")
        self._done, self._shown = 0, 0.0

    def __call__(self, trainer: Trainer, event: Event) -> None:
        if isinstance(event, StepDone):
            self._done += event.samples
            if monotonic() - self._shown >= REFRESH:
                self._show(trainer, event)
        else:
            self._bars.update(self._bar, completed=self._done)

    def _show(self, trainer: Trainer, event: StepDone) -> None:
        stage = trainer.stream.stages[-1]
        total = trainer.parts.sparsity.planned_epochs() * len(trainer.parts.objective.training_set(stage))
        told = f"task {event.task + 1} · epoch {event.epoch + 1}/{event.epochs}"
        loss = f"{event.loss.item():.3f}"
        self._bars.update(self._bar, description=told, completed=self._done, total=total, loss=loss)
        self._shown = monotonic()
