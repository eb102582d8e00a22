"""`esacl grid`: many runs from one recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import WHAT, Code, described
from esacl.cli.grid_runs import (
    PATIENCE,
    DryRun,
    Insecure,
    Jobs,
    Scheduler,
    Seeds,
    command_again,
    default_folder,
    overview,
    seeds_of,
    train_cells,
    workers,
)
from esacl.errors import ConfigError


def grid_command(
    recipe: Annotated[Path, Parameter(help="TOML file: methods, streams, sparsities, seeds and overrides")],
    /,
    *,
    out: Annotated[Path | None, described("folder of the grid [default: runs/NAME of the recipe]", WHAT)] = None,
    seeds: Seeds = None,
    only: Annotated[
        list[str] | None,
        described("train these rows only; the tables show all", WHAT, consume_multiple=True, negative=""),
    ] = None,
    code: Code = None,
    dry_run: DryRun = False,
    tflops: Annotated[
        float | None, described("with --dry-run: hours also for a device that sustains so many TFLOPS", WHAT)
    ] = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    insecure: Insecure = False,
) -> None:
    """Train every run of a recipe that is not finished yet, several at a time, then tabulate and plot them.

    Repeat the command after a crash, a kill or Ctrl-C: it goes on where it stopped. Exit code 1 if a run failed.
    """
    from esacl.artifacts import RunDirectory
    from esacl.cli.grid_estimate import estimate_table
    from esacl.grid.cluster import check_cluster
    from esacl.grid.plan import lay_out, missing
    from esacl.grid.recipe import read_recipe
    from esacl.grid.study import PAGE, study_of
    from esacl.grid.tables import FILES, write_recipe, write_tables
    from esacl.report.formats import as_rich
    from esacl.report.page import write_page
    from esacl.report.table import tables

    count = workers(jobs, scheduler)
    if tflops is not None and (not dry_run or tflops <= 0):
        raise ConfigError(f"--tflops {tflops:g} is not allowed. Allowed: a number above 0, beside --dry-run.")
    wanted = read_recipe(recipe, code or ())
    chosen = seeds_of(seeds) or wanted.seeds
    place = out or default_folder(recipe)
    cells = lay_out(wanted, place, chosen)
    left = missing(cells, only or ())
    (TEXT if dry_run else STATUS).print(overview(cells), f"{len(left)} of {len(cells)} runs to do.", sep="")
    if dry_run:
        if left:
            TEXT.print(estimate_table(left, tflops))
        return
    if scheduler and left:
        check_cluster(scheduler, insecure)
    folder = RunDirectory(place)
    with folder.locked(FILES, PATIENCE):
        write_recipe(wanted, chosen, place)
    failed = train_cells(left, count, scheduler, insecure)
    with folder.locked(FILES, PATIENCE):
        lines = write_tables(wanted, cells, place, command_again("grid", recipe, seeds or (), code or ()))
        page = write_page(study_of(wanted, cells, lines), place / PAGE)
    TEXT.print(as_rich(tables(lines, everything=False)))
    TEXT.print(f"written: {place / 'table.md'}, figures.csv", markup=False, soft_wrap=True)
    TEXT.print(f"report: {page.resolve()}", markup=False, soft_wrap=True)
    if failed:
        told = f"{len(failed)} of {len(left)} runs failed; the same command tries them again."
        STATUS.print(told, style="red", markup=False, soft_wrap=True)
        raise SystemExit(1)
