"""Live progress of a run: task, epoch, loss, samples a second, time left. Silent where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

if TYPE_CHECKING:
    from esacl.runner import Run
    from esacl.training.events import Event, StepDone, TaskDone

NAMED = TextColumn("{task.description}", markup=False)  # names are text, whatever is in them
REFRESH = 0.1  # seconds between readings of the loss, which may wait for the device


@contextmanager
def training_progress(console: Console, run: Run) -> Iterator[Callable[[Event], None]]:
    """A listener that draws a bar on a terminal, and does nothing elsewhere."""
    if not console.is_terminal:
        yield lambda event: None
        return
    columns = (
        NAMED,
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[speed]}", style="dim"),
        TextColumn("{task.fields[loss]}", style="dim"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console) as bars:
        yield _TrainingBar(console, bars, run)


class _TrainingBar:
    """Turns events into a bar."""

    def __init__(self, console: Console, bars: Progress, run: Run) -> None:
        self._console = console
        self._bars = bars
        self._stages = len(run.stream.stages)
        self._same_classes = run.stream.same_classes
        self._run = run
        self._bar = bars.add_task("starting", total=1.0, speed="", loss="")
        bars.update(self._bar, completed=run.trainer.share_done())
        self._pending, self._since = 0, monotonic()

    def __call__(self, event: Event) -> None:
        from esacl.training.events import StepDone, TaskDone

        if isinstance(event, StepDone):
            self._pending += event.samples
            passed = monotonic() - self._since
            if passed >= REFRESH:
                self._show(event, passed)
        elif isinstance(event, TaskDone):
            self._bars.update(self._bar, completed=self._run.trainer.share_done())
            self._pending, self._since = 0, monotonic()
            self._console.print(_sentence(event, self._stages, self._same_classes))

    def _show(self, event: StepDone, passed: float) -> None:
        phase = "" if event.phase == "fit" else f"{event.phase}, "
        self._bars.update(
            self._bar,
            completed=self._run.trainer.share_done(),
            description=f"task {event.task + 1}/{self._stages} · {phase}epoch {event.epoch + 1}/{event.epochs}",
            speed=f"{self._pending / passed:,.0f} samples/s",
            loss=f"loss {event.loss.item():.3f}",
        )
        self._pending, self._since = 0, monotonic()


def _sentence(event: TaskDone, stages: int, same_classes: bool = False) -> str:
    """What is known after a task: mean accuracy on the tasks seen so far."""
    rows = event.accuracies
    seen = event.task + 1 if stages > 1 else len(rows.task_il)
    name = "Domain-IL" if same_classes else "Task-IL"
    text = f"after task {event.task + 1}/{stages}: {name} {sum(rows.task_il[:seen]) / seen:.1%}"
    return text if rows.class_il is None or same_classes else f"{text}, Class-IL {sum(rows.class_il[:seen]) / seen:.1%}"


@contextmanager
def transfer_progress(console: Console, description: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (bytes done, bytes in all) that draws a download bar on a terminal."""
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (NAMED, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task(description, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total or None)


@contextmanager
def counting_progress(console: Console, description: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (images done, images in all) that draws a bar on a terminal while there is something to count."""
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (NAMED, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(description, total=None, visible=False)
        yield lambda done, total: bars.update(bar, completed=done, total=total, visible=True)
