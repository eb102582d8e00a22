"""`esacl grid`: many runs from one recipe."""

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from esacl.artifacts import RunDirectory
from esacl.cli.flags import MACHINE, WHAT, described
from esacl.cli.grid_progress import grid_progress
from esacl.cli.interrupts import held_back, terminable
from esacl.errors import ConfigError
from esacl.grid.cluster import check_installed, connect
from esacl.grid.drive import Drive
from esacl.grid.news import Failed
from esacl.grid.plan import Cell, lay_out, missing
from esacl.grid.recipe import checked_seeds, read_recipe
from esacl.grid.study import PAGE, study_of
from esacl.grid.tables import write_recipe, write_tables
from esacl.report.formats import as_rich
from esacl.report.sheet import sheets
from esacl.report.study import write_page

TEXT = Console()
STATUS = Console(stderr=True)
STATES = ("finished", "begun", "changed", "new")


def grid_command(
    recipe: Annotated[Path, Parameter(help="TOML file: methods, streams, sparsities, seeds and overrides")],
    /,
    *,
    out: Annotated[Path | None, described("folder of the grid [default: runs/NAME of the recipe]", WHAT)] = None,
    seeds: Annotated[
        list[str] | None,
        described("instead of those of the recipe, such as 0 1 2", WHAT, consume_multiple=True, negative=""),
    ] = None,
    only: Annotated[
        list[str] | None,
        described("train these rows only; the tables show all", WHAT, consume_multiple=True, negative=""),
    ] = None,
    dry_run: Annotated[bool, described("train nothing: show what is done and what is left", WHAT, negative="")] = False,
    jobs: Annotated[
        int | None, described("processes of this machine, of one thread each [default: its cores]", MACHINE)
    ] = None,
    scheduler: Annotated[
        str | None, described("address, or scheduler file (.json), of a dask cluster to run on instead", MACHINE)
    ] = None,
) -> None:
    """Train every run of a recipe that is not finished yet, several at a time, then tabulate and plot them.

    Repeat the command after a crash, a kill or Ctrl-C: it goes on where it stopped. Exit code 1 if a run failed.
    """
    workers = _workers(jobs, scheduler)
    wanted = read_recipe(recipe)
    chosen = wanted.seeds if seeds is None else _numbers(seeds)
    place = out or Path("runs") / _place(recipe)
    cells = lay_out(wanted, place, chosen)
    left = missing(cells, only or ())
    STATUS.print(_overview(cells), _count(cells, left), sep="")
    if dry_run:
        return
    failed: list[Failed] = []
    if left:
        check_installed()
    with RunDirectory(place).locked():
        write_recipe(wanted, chosen, place)
        if left:
            given = {"--out": [out], "--seeds": seeds, "--only": only, "--jobs": [jobs], "--scheduler": [scheduler]}
            failed = _train(left, min(workers, len(left)), scheduler, _again(recipe, given))
        lines = write_tables(wanted, cells, place, f"esacl grid {recipe}")
        page = write_page(study_of(wanted, cells, lines), place / PAGE)
    TEXT.print(as_rich(sheets(lines, everything=False)))
    TEXT.print(f"written: {place / 'table.md'}, figures.csv", markup=False, soft_wrap=True)
    TEXT.print(f"report: {page.resolve()}", markup=False, soft_wrap=True)
    if failed:
        told = f"{len(failed)} of {len(left)} runs failed; the same command tries them again."
        STATUS.print(told, style="red", markup=False, soft_wrap=True)
        raise SystemExit(1)


def _train(cells: Sequence[Cell], jobs: int, scheduler: str | None, again: str) -> list[Failed]:
    """Bring runs to their end with live progress; say how to go on when interrupted."""
    where = f"the cluster at {scheduler}" if scheduler else f"{jobs} processes of this machine"
    STATUS.print(f"training {len(cells)} runs on {where}.", markup=False, soft_wrap=True)
    failed: list[Failed] = []
    try:
        with terminable(), ExitStack() as held:
            with held_back():
                client = held.enter_context(connect(jobs, scheduler))
            show = held.enter_context(grid_progress(STATUS, cells))
            for news in Drive(client, cells).news():
                show(news)
                if isinstance(news, Failed):
                    failed.append(news)
    except KeyboardInterrupt:
        STATUS.print(f"\ninterrupted. Continue with: {again}", markup=False, soft_wrap=True)
        raise SystemExit(130) from None
    return failed


def _place(recipe: Path) -> Path:
    """Where the runs of a recipe go: called after it, and after its folder in a collection named `recipes`."""
    whole = recipe.resolve().with_suffix("").parts
    return Path(*whole[len(whole) - whole[::-1].index("recipes") :] if "recipes" in whole else whole[-1:])


def _again(recipe: Path, given: Mapping[str, Sequence[object] | None]) -> str:
    """The same command once more."""
    flags = {name: [value for value in values or () if value is not None] for name, values in given.items()}
    words = [word for name, values in flags.items() if values for word in (name, *values)]
    return f"esacl grid {shlex.join([str(recipe), *map(str, words)])}"


def _overview(cells: Sequence[Cell]) -> Table:
    """How far every row is, in runs."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("row", overflow="fold")
    for state in STATES:
        table.add_column(state, justify="right")
    counts: dict[str, Counter[str]] = {}
    for cell in cells:
        counts.setdefault(cell.point.label, Counter())[cell.state()] += 1
    for label, found in counts.items():
        table.add_row(Text(label), *(str(found[state] or "") for state in STATES))
    return table


def _count(cells: Sequence[Cell], left: Sequence[Cell]) -> str:
    return f"{len(left)} of {len(cells)} runs to do."


def _workers(jobs: int | None, scheduler: str | None) -> int:
    """How many processes of this machine."""
    if jobs is not None and scheduler is not None:
        raise ConfigError(
            f"--jobs {jobs} is for processes of this machine, and --scheduler {scheduler!r} names a cluster that has "
            f"its own. Leave one of the two out."
        )
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs {jobs} is not allowed. Allowed: a whole number of at least 1.")
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return jobs or here


def _numbers(words: Sequence[str]) -> list[int]:
    """Seeds as the command line has them, apart or with commas."""
    try:
        seeds = [int(word) for text in words for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {' '.join(words)!r} is not allowed. Allowed: whole numbers, as 0 1 2.") from None
    return checked_seeds(seeds)
