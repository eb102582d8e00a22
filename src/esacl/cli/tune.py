"""`esacl tune`: choose the settings of every row on the validation split, with as many trials for each."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import OUTPUT, WHAT, Code, described
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
from esacl.config import Scenario

if TYPE_CHECKING:
    from rich.console import Console

    from esacl.grid.choice import Choice
    from esacl.grid.events import RunFailed


def tune_command(
    recipe: Annotated[Path, Parameter(help="TOML file: that of a grid, with the values to try in tune")],
    /,
    *,
    out: Annotated[Path | None, described("folder of the trials [default: runs/NAME of the recipe]", WHAT)] = None,
    seeds: Seeds = None,
    score: Annotated[
        Scenario, described("accuracy to choose by; both: mean of Task-IL and Class-IL [default: both]", WHAT)
    ] = "both",
    code: Code = None,
    dry_run: DryRun = False,
    every: Annotated[
        bool, described("print every trial too; tuning.md has them anyway", OUTPUT, name="--all", negative="")
    ] = False,
    json: Annotated[bool, described("print the result as JSON", OUTPUT, negative="")] = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    insecure: Insecure = False,
) -> None:
    """Choose settings on the validation split: every row tries as many, the best mean over the seeds wins.

    Example, in tune.toml; each row has four trials:

        seeds = [0, 1]
        base = { stream = "split-digits", epochs = 10 }

        [[rows]]
        name = "er"
        method = "er"
        tune = { lr = [0.01, 0.03, 0.1, 0.3] }

        [[rows]]
        name = "ewc"
        method = "ewc"
        tune = { lr = [0.01, 0.03], "objective.lam" = [1.0, 3.0] }

    Then: `esacl tune tune.toml`, and on the test split: `esacl grid runs/tune/chosen.toml --out runs/tuned`.

    Refused: rows with different numbers of trials, one seed, the test split. A trial of which a seed fails or diverges
    is the worst. Repeat the command after Ctrl-C: it goes on where it stopped. Exit code 1 if a row has no trial to
    choose, or a run failed for another reason than that it diverged.
    """
    from esacl.artifacts import RunDirectory
    from esacl.grid.choice import choose
    from esacl.grid.cluster import check_cluster
    from esacl.grid.plan import lay_out, missing
    from esacl.grid.tables import write_recipe
    from esacl.grid.tuning import read_tuning
    from esacl.grid.tuning_tables import FILES, as_json, summary, trial_tables, write_tuning
    from esacl.report.formats import as_rich

    count = workers(jobs, scheduler)
    tuning = read_tuning(recipe, seeds_of(seeds), score, code or ())
    place = out or default_folder(recipe)
    cells = lay_out(tuning.recipe, place)
    left = missing(cells)
    numbers = f"{len(tuning.rows)} rows × {tuning.trials_a_row} trials × {len(tuning.recipe.seeds)} seeds"
    (TEXT if dry_run else STATUS).print(overview(cells), f"{numbers}: {len(left)} of {len(cells)} runs to do.", sep="")
    if dry_run:
        return
    if scheduler and left:
        check_cluster(scheduler, insecure)
    folder = RunDirectory(place)
    with folder.locked(FILES, PATIENCE):
        write_recipe(tuning.recipe, tuning.recipe.seeds, place)
    failed = train_cells(left, count, scheduler, insecure)
    with folder.locked(FILES, PATIENCE):
        choices = choose(tuning, cells, score)
        command = command_again("tune", recipe, seeds or (), code or (), "--score", score)
        write_tuning(tuning, choices, cells, score, place, command)
    if json:
        print(as_json(tuning, choices, score), end="")
    else:
        TEXT.print(as_rich([*(trial_tables(choices) if every else []), summary(choices)]))
    _tell_files(choices, place, code or (), STATUS if json else TEXT)
    _tell_failures(choices, failed)


def _tell_files(choices: Sequence[Choice], place: Path, code: Sequence[str], console: Console) -> None:
    """Say where everything is, and how the chosen settings are measured."""
    from esacl.grid.tuning_tables import DOCUMENT, PAGE, RECIPE

    chosen = any(choice.best for choice in choices)
    files = ", ".join([str(place / PAGE), DOCUMENT, *([RECIPE] if chosen else [])])
    console.print(f"written: {files}", markup=False, soft_wrap=True)
    if chosen:
        words = [str(place / RECIPE), "--out", str(place.with_name(f"{place.name}-chosen"))]
        words += [word for name in code for word in ("--code", name)]
        console.print(f"next: esacl grid {shlex.join(words)}", markup=False, soft_wrap=True)


def _tell_failures(choices: Sequence[Choice], failed: Sequence[RunFailed]) -> None:
    """Say what failed; where that may have changed the choice, end with a code that says so."""
    from esacl.grid.tuning_tables import RECIPE

    broken = [event for event in failed if not event.diverged]
    nothing = [choice.row.name for choice in choices if choice.best is None]
    if len(failed) > len(broken):
        STATUS.print(f"{len(failed) - len(broken)} runs diverged; their trials count as the worst.", soft_wrap=True)
    if broken:
        told = f"{len(broken)} runs failed, so the choice may change; the same command tries them again."
        STATUS.print(told, style="red", markup=False, soft_wrap=True)
    if nothing:
        told = f"no trial of {', '.join(nothing)} finished with every seed, so {RECIPE} is without it."
        STATUS.print(told, style="red", markup=False, soft_wrap=True)
    if broken or nothing:
        raise SystemExit(1)
