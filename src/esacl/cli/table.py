"""`esacl table`: what came of many runs, in the format that is needed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from esacl.cli.consoles import TEXT
from esacl.cli.flags import OUTPUT, described
from esacl.files import check_place, write_atomic

if TYPE_CHECKING:
    from esacl.report.rows import Row
    from esacl.report.table import Table

WIDTH = 200  # of a table for a terminal that goes into a file


def table_command(
    directories: Annotated[list[Path], Parameter(help="folders of grids or runs", negative="")],
    /,
    *,
    paper: Annotated[bool, described("put the paper's numbers beside the measured ones", OUTPUT, negative="")] = False,
    against: Annotated[
        str | None,
        described("row to compare with, seed by seed: mean difference and its 95 % interval", OUTPUT),
    ] = None,
    format: Annotated[
        Literal["rich", "markdown", "latex", "csv"],
        described("rich: the main figures for a terminal; the others have all of them [default: rich]", OUTPUT),
    ] = "rich",
    out: Annotated[
        Path | None, described("file to write [default: the terminal]", OUTPUT, name=["--out", "-o"])
    ] = None,
) -> None:
    """Compare the runs of a grid, or any others: mean and spread over seeds, the best in bold, and the scale."""
    from esacl.grid.tables import found_lines
    from esacl.report.differences import difference_numbers
    from esacl.report.formats import as_csv, as_latex, as_markdown, as_rich
    from esacl.report.table import numbers

    if out is not None:
        check_place(out, "table")
    lines = found_lines(directories)
    if format == "rich" and out is None:
        TEXT.print(as_rich(_tables(lines, paper, against, everything=False)))
        return
    if format == "csv":
        beside = difference_numbers(lines, against) if against is not None else ([] for _ in range(len(lines) + 1))
        text = as_csv([*one, *more] for one, more in zip(numbers(lines, paper), beside))
    elif format == "rich":
        text = as_terminal(_tables(lines, paper, against, everything=False))
    else:
        text = (as_markdown if format == "markdown" else as_latex)(_tables(lines, paper, against))
    if out is None:
        print(text, end="")
        return
    write_atomic(out, text)
    TEXT.print(f"table: {out.resolve()}", markup=False, soft_wrap=True)


def as_terminal(tables: list[Table]) -> str:
    """Tables as a wide terminal shows them, for a file."""
    from esacl.report.formats import as_rich

    drawn = StringIO()
    Console(file=drawn, width=WIDTH).print(as_rich(tables))
    return drawn.getvalue()


def _tables(lines: list[Row], paper: bool, against: str | None, everything: bool = True) -> list[Table]:
    """The tables, then the differences from the row that was chosen."""
    from esacl.report.differences import differences
    from esacl.report.table import tables

    return tables(lines, paper, everything) + ([] if against is None else differences(lines, against))
