"""`esacl leaderboard`: runs that had the same budget, the best first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from esacl.cli.consoles import TEXT
from esacl.cli.flags import OUTPUT, described
from esacl.cli.table import as_terminal
from esacl.files import check_place, write_atomic


def leaderboard_command(
    directories: Annotated[list[Path], Parameter(help="folders of grids or runs", negative="")],
    /,
    *,
    against: Annotated[str | None, described("row to compare with, seed by seed [default: er]", OUTPUT)] = None,
    format: Annotated[
        Literal["rich", "markdown", "latex", "csv"], described("format of the table [default: rich]", OUTPUT)
    ] = "rich",
    out: Annotated[
        Path | None, described("file to write the table to [default: the terminal]", OUTPUT, name=["--out", "-o"])
    ] = None,
    figures: Annotated[Path | None, described("folder for the plots of the frontier, as SVG and PNG", OUTPUT)] = None,
) -> None:
    """Rank runs that were given the same --budget: accuracy, what was spent and stored, and the lead over `er`.

    Several budgets are ranked one after the other. `esacl report` shows the same table, with all plots, as a page.
    """
    from esacl.grid.tables import found_lines
    from esacl.report.formats import as_csv, as_latex, as_markdown, as_rich
    from esacl.report.leaderboard import BASELINE, board_numbers, budget_of, leaderboards

    if out is not None:
        check_place(out, "table")
    lines, rival = found_lines(directories), against or BASELINE
    found = leaderboards(lines, rival)
    if figures is not None:
        from esacl.report.figures.themes import frontiers, save_figures

        saved = save_figures([row for row in lines if budget_of(row)], figures, frontiers)
        TEXT.print(f"figures: {len(saved)} files in {figures.resolve()}", markup=False, soft_wrap=True)
    if format == "rich" and out is None:
        TEXT.print(as_rich(found))
        return
    if format == "csv":
        text = as_csv(board_numbers(lines, rival))
    else:
        text = {"rich": as_terminal, "markdown": as_markdown, "latex": as_latex}[format](found)
    if out is None:
        print(text, end="")
        return
    write_atomic(out, text)
    TEXT.print(f"table: {out.resolve()}", markup=False, soft_wrap=True)
