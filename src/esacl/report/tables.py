"""The summary of runs for a terminal."""

from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from esacl.report.columns import Column, columns
from esacl.report.groups import Contest, contests
from esacl.report.record import RunRecord

Write = Callable[[Column], str]

FIRST_DROPPED = (
    ("FLOPs", "sparse"),
    ("FLOPs", "paper"),
    ("Forgetting", "Task-IL"),
    ("", "Capacity"),
    ("FLOPs", "executed"),
    ("", "Time"),
    ("Forgetting", "Class-IL"),
    ("Forgetting", "Domain-IL"),
)
"""Figures that are left out where the terminal has no room, the first of them first."""


def summary_table(records: Sequence[RunRecord]) -> Table:
    """Every run, then mean ± sample standard deviation where the same settings have several seeds."""
    return _SummaryTable(records)


class _SummaryTable(Table):
    """A line for each run and one value in a cell; what does not fit is left to the report."""

    def __init__(self, records: Sequence[RunRecord]) -> None:
        super().__init__()
        self._contests, self._figures = contests(records), columns(records)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """With as many columns as fit."""
        yield from self._fitted(console, options).__rich_console__(console, options)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The width of that."""
        return self._fitted(console, options).__rich_measure__(console, options)

    def _fitted(self, console: Console, options: ConsoleOptions) -> Table:
        endless = options.update(width=10_000)
        shown = list(self._figures)
        for family, name in FIRST_DROPPED:
            if Measurement.get(console, endless, _table(self._contests, shown)).maximum <= options.max_width:
                break
            shown = [column for column in shown if (column.figure.family, column.figure.name) != (family, name)]
        return _table(self._contests, shown)


def _table(found: Sequence[Contest], figures: Sequence[Column]) -> Table:
    """One line for each run; the stream is a column where there are several."""
    streams = len({contest.stream for contest in found}) > 1
    table = Table(
        title=None if streams or not found else found[0].stream,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("Method", overflow="fold")
    if streams:
        table.add_column("Stream", overflow="fold")
    table.add_column("Seed", justify="right", no_wrap=True)
    for column in figures:
        table.add_column(_heading(column), justify="right", no_wrap=True)

    def add(names: Sequence[str], write: Write, style: str = "") -> None:
        shown = names if streams else (names[0], names[2])
        table.add_row(*map(Text, shown), *map(write, figures), style=style)

    _fill(table, found, add)
    return table


def _heading(column: Column) -> str:
    """Name and unit in one line; a family stands above it."""
    family = column.figure.family
    if family in ("", "Accuracy"):
        return f"{column.figure.name} {column.scale.unit}"
    return f"{column.scale.unit if family == 'FLOPs' else f'{family} {column.scale.unit}'}\n{column.figure.name}"


def _mean(column: Column, records: Sequence[RunRecord]) -> str:
    """With the spread beside it where it measures learning; cost is a plain mean."""
    text = column.mean(records)
    return text if column.figure.family in ("Accuracy", "Forgetting") else text.partition(" ")[0]


def _fill(table: Table, found: Sequence[Contest], add: Callable[..., None]) -> None:
    """Every seed, then their mean; a line below each group that has one."""
    for contest in found:
        for group in contest.groups:
            for record in group.records:
                add((group.label, contest.stream, str(record.seed)), lambda column, run=record: column.cell(run))
            if len(group.records) > 1:
                add((group.label, contest.stream, "mean"), lambda column, of=group.records: _mean(column, of), "bold")
            if len(found) > 1 or len(contest.groups) > 1:
                table.add_section()
