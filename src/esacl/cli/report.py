"""`esacl report`: one page about a run, several runs, or a grid."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from esacl.cli.consoles import TEXT
from esacl.cli.flags import OUTPUT, described
from esacl.errors import ConfigError


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
    figures: Annotated[
        Path | None, described("folder for the plots of a grid as SVG and PNG, for papers", OUTPUT)
    ] = None,
) -> None:
    """Write one self-contained page about a run, about several side by side, or about a grid.

    The page of a grid has its table beside the paper's numbers, accuracy over capacity, FLOPs and time, forgetting over
    tasks, and sweeps and ablations where the grid has them. It also shows grids that are not finished.
    """
    from esacl.grid.study import PAGE, is_study
    from esacl.report import load_run, summary_table, write_report

    target = out or (directories[0] / PAGE if len(directories) == 1 else Path(PAGE))
    if any(is_study(directory) for directory in directories):
        written = _study(directories, target, figures)
    elif figures is not None:
        raise ConfigError(f"--figures {str(figures)!r} is for grids. Give the folder of a grid, or leave it out.")
    else:
        TEXT.print(summary_table([load_run(directory) for directory in directories]))
        written = write_report(directories, target)
    TEXT.print(f"report: {written.resolve()}", markup=False, soft_wrap=True)


def _study(directories: Sequence[Path], target: Path, figures: Path | None) -> Path:
    from esacl.grid.study import read_study
    from esacl.report.formats import as_rich
    from esacl.report.sheet import sheets
    from esacl.report.study import save_figures, write_page

    study = read_study(directories)
    TEXT.print(as_rich(sheets(study.lines, everything=False)))
    TEXT.print(f"{study.finished} of {study.wanted} runs finished, {len(study.failures)} failed.")
    if figures is not None:
        count = len(save_figures(study.lines, figures))
        TEXT.print(f"figures: {count} files in {figures.resolve()}", markup=False, soft_wrap=True)
    return write_page(study, target)
