"""The summary of runs for a terminal."""

from collections.abc import Callable, Sequence
from itertools import groupby

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from esacl.report.columns import Column, columns
from esacl.report.groups import Contest, contests
from esacl.report.record import RunRecord

# Below this many characters a row for each run would break inside its numbers.
_WIDE = 110

Write = Callable[[Column], str]


def summary_table(records: Sequence[RunRecord]) -> Table:
    """Every run, then mean ± sample standard deviation where the same settings have several seeds."""
    return _SummaryTable(records)


class _SummaryTable(Table):
    """A table with a line for each run, or with stacked cells where the terminal is narrow."""

    def __init__(self, records: Sequence[RunRecord]) -> None:
        super().__init__()
        self._contests, self._figures = contests(records), columns(records)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The layout that fits."""
        layout = _lines if options.max_width >= _WIDE else _stacks
        yield from layout(self._contests, self._figures).__rich_console__(console, options)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The width of that layout."""
        layout = _lines if options.max_width >= _WIDE else _stacks
        return layout(self._contests, self._figures).__rich_measure__(console, options)


def _lines(found: Sequence[Contest], figures: Sequence[Column]) -> Table:
    """One line for each run."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("Method", overflow="fold")
    table.add_column("Stream", overflow="fold")
    table.add_column("Seed", justify="right", no_wrap=True)
    for column in figures:
        table.add_column(column.heading.replace(" ", "\n"), justify="right", no_wrap=True)

    def add(names: Sequence[str], write: Write, style: str = "") -> None:
        # The spread stands below its mean: nine columns leave no room beside it.
        table.add_row(*map(Text, names), *(write(column).replace(" ", "\n") for column in figures), style=style)

    _fill(table, found, add)
    return table


def _stacks(found: Sequence[Contest], figures: Sequence[Column]) -> Table:
    """One block for each run, with the numbers of one kind above each other."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_lines=True)
    table.add_column("Method\nStream\nSeed", overflow="fold")
    families = [list(members) for _, members in groupby(figures, key=lambda column: column.figure.family)]
    for members in families:
        table.add_column(_stacked_heading(members), justify="right", no_wrap=True)

    def add(names: Sequence[str], write: Write, style: str = "") -> None:
        cells = ["\n".join(write(column) for column in members) for members in families]
        table.add_row(Text("\n".join(names)), *cells, style=style)

    _fill(table, found, add)
    return table


def _stacked_heading(members: Sequence[Column]) -> str:
    """Names above each other; a family says its own name and unit once."""
    first = members[0]
    if not first.figure.family:
        return "\n".join(f"{column.figure.name} {column.scale.unit}" for column in members)
    family = first.scale.unit if first.figure.kind == "flops" else f"{first.figure.family} {first.scale.unit}"
    return "\n".join([family, *(column.figure.name for column in members)])


def _fill(table: Table, found: Sequence[Contest], add: Callable[..., None]) -> None:
    """Every seed, then their mean; a line below each group that has one."""
    for contest in found:
        for group in contest.groups:
            for record in group.records:
                add((group.label, contest.stream, str(record.seed)), lambda column, run=record: column.cell(run))
            if len(group.records) > 1:
                add((group.label, contest.stream, "mean"), lambda column, of=group.records: column.mean(of), "bold")
            if len(found) > 1 or len(contest.groups) > 1:
                table.add_section()
