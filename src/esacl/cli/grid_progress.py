"""Live progress of a grid: a bar for each run that is being trained and one for all; lines where nobody watches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from esacl.grid.events import ENDS, GridEvent, RunFailed, RunFinished, RunNote, RunProgress, RunStopped
from esacl.grid.plan import Cell
from esacl.report import load_run
from esacl.report.units import percent, seconds

Show = Callable[[GridEvent], None]

SHOWN = 12  # bars of single runs at a time: more do not fit a screen
MARKS = 1000  # on the bar of a run


@contextmanager
def grid_progress(console: Console, cells: Sequence[Cell]) -> Iterator[Show]:
    """A listener for what a grid tells."""
    if not console.is_terminal:
        yield _Lines(console, len(cells))
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[words]}", style="dim"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, speed_estimate_period=1e9) as bars:
        yield _Bars(console, bars, len(cells))


class _Tally:
    """How much of a grid was trained here, in runs: what earlier commands left does not count."""

    def __init__(self, total: int) -> None:
        self.total, self.ended = total, 0
        self._first: dict[Cell, float] = {}
        self._shares: dict[Cell, float] = {}

    def __call__(self, event: GridEvent) -> None:
        if isinstance(event, RunProgress):
            self._first.setdefault(event.cell, event.share)
            self._shares[event.cell] = event.share
        elif isinstance(event, ENDS):
            self._shares[event.cell] = 1.0
            self.ended += 1

    @property
    def done(self) -> float:
        """What was trained."""
        return sum(share - self._first.get(cell, 0.0) for cell, share in self._shares.items())

    @property
    def left(self) -> float:
        """What is still to be trained."""
        return self.total - sum(self._shares.values())


class _Lines:
    """A line for each run that ends, with the time that is left if the others are like those before."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._tally, self._began = console, _Tally(total), monotonic()

    def __call__(self, event: GridEvent) -> None:
        self._tally(event)
        if text := _sentence(event):
            before = f"[{self._count()}] " if isinstance(event, ENDS) else ""
            _print(self._console, f"{before}{text}", isinstance(event, RunFailed))

    def _count(self) -> str:
        tally = self._tally
        count = f"{tally.ended}/{tally.total}"
        if tally.ended == tally.total or tally.done <= 0:
            return count
        return f"{count}, about {seconds((monotonic() - self._began) / tally.done * tally.left)} left"


class _Bars:
    """Bars in a terminal."""

    def __init__(self, console: Console, bars: Progress, total: int) -> None:
        self._console, self._bars, self._tally = console, bars, _Tally(total)
        self._active: dict[Cell, TaskID] = {}
        self._all = bars.add_task("all runs", total=total, words=f"0/{total}")

    def __call__(self, event: GridEvent) -> None:
        self._tally(event)
        if text := _sentence(event):
            _print(self._console, text, isinstance(event, RunFailed))
        if isinstance(event, RunProgress):
            self._move(event)
        elif isinstance(event, ENDS) and event.cell in self._active:
            self._bars.remove_task(self._active.pop(event.cell))
        done, left = self._tally.done, self._tally.left
        count = f"{self._tally.ended}/{self._tally.total}"
        self._bars.update(self._all, completed=done, total=done + left, words=count)

    def _move(self, event: RunProgress) -> None:
        mark = round(MARKS * event.share)
        if event.cell not in self._active:
            if len(self._active) >= SHOWN:
                return
            # The clock of the estimate starts at what an earlier worker left.
            self._active[event.cell] = self._bars.add_task(event.cell.name, total=MARKS, words="", completed=mark)
        self._bars.update(self._active[event.cell], completed=mark, words=event.words)


def _sentence(event: GridEvent) -> str:
    """What is said of a run that ended, or went on after something had happened."""
    if isinstance(event, RunFailed):
        return f"FAILED {event.cell.name}: {event.reason}"
    if isinstance(event, RunStopped):
        return f"stopped {event.cell.name}: {event.reason}"
    if isinstance(event, RunNote):
        return f"note: {event.cell.name}: {event.text}"
    if isinstance(event, RunFinished):
        run = load_run(event.cell.path)
        scores = f"Task-IL {percent(run.accuracy.task_il)}, Class-IL {percent(run.accuracy.class_il)}"
        return f"{event.cell.name}: {scores}, {seconds(run.seconds.total)}"
    return ""


def _print(console: Console, text: str, bad: bool) -> None:
    console.print(text, style="red" if bad else None, markup=False, highlight=False, soft_wrap=True)
