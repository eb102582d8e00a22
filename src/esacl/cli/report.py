"""`esacl report`: one page about a run, several runs, or a grid."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from esacl.cli.consoles import TEXT
from esacl.cli.flags import OUTPUT, described


def report_command(
    directories: Annotated[list[Path], Parameter(help="run directories, or the folder of a grid", negative="")],
    /,
    *,
    out: Annotated[
        Path | None,
        described(
            "file to write [default: report.html in the folder, or in the current one for several]",
            OUTPUT,
            name=["--out", "-o"],
        ),
    ] = None,
    figures: Annotated[Path | None, described("folder for the plots as SVG and PNG, for papers", OUTPUT)] = None,
) -> None:
    """Write one self-contained page about a run, about several side by side, or about a grid.

    A page of several has their table, beside the paper's numbers on its streams, accuracy over capacity, FLOPs, time
    and tasks, forgetting, and sweeps and ablations where there are any. It also shows grids that are not finished.
    """
    from esacl.grid.study import PAGE, read_study
    from esacl.report.formats import as_rich
    from esacl.report.page import write_page
    from esacl.report.table import run_tables, tables

    study = read_study(directories)
    TEXT.print(as_rich(run_tables(study.rows) if study.whole else tables(study.rows, everything=False)))
    if not study.whole:
        TEXT.print(f"{study.finished} of {study.wanted} runs finished, {len(study.failures)} failed.")
    if figures is not None:
        from esacl.report.figures.themes import save_figures, save_run_figures

        one = study.whole and study.finished == 1
        saved = save_run_figures(study.rows[0].records[0], figures) if one else save_figures(study.rows, figures)
        TEXT.print(f"figures: {len(saved)} files in {figures.resolve()}", markup=False, soft_wrap=True)
    written = write_page(study, out or (directories[0] / PAGE if len(directories) == 1 else Path(PAGE)))
    TEXT.print(f"report: {written.resolve()}", markup=False, soft_wrap=True)
