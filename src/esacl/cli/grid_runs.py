"""What `esacl grid` and `esacl tune` share: their flags, how far their runs are, and training what is missing."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.cli.consoles import STATUS
from esacl.cli.flags import MACHINE, WHAT, described
from esacl.errors import ConfigError

if TYPE_CHECKING:
    from esacl.grid.events import RunFailed
    from esacl.grid.plan import Cell

PATIENCE = 300
"""Seconds to wait for another command that writes into the same folder; it trains without holding that."""

STATES = ("finished", "stopped", "begun", "changed", "new")

Seeds = Annotated[
    list[str] | None,
    described("instead of those of the recipe, such as 0 1 2", WHAT, consume_multiple=True, negative=""),
]
DryRun = Annotated[
    bool, described("train nothing: show what is done, what is left, and what it will cost", WHAT, negative="")
]
Jobs = Annotated[int | None, described("processes of this machine, of one thread each [default: its cores]", MACHINE)]
Scheduler = Annotated[
    str | None, described("address, or scheduler file (.json), of a dask cluster to run on instead", MACHINE)
]
Insecure = Annotated[
    bool, described("allow a cluster without encryption: others may run code there", MACHINE, negative="")
]


def train_cells(cells: Sequence[Cell], jobs: int, scheduler: str | None, insecure: bool) -> list[RunFailed]:
    """Bring runs to their end with live progress; say how to go on when interrupted."""
    from esacl.cli.grid_progress import grid_progress
    from esacl.grid.cluster import connect
    from esacl.grid.events import RunFailed
    from esacl.grid.local import LocalGrid
    from esacl.grid.scheduler import ClusterGrid
    from esacl.grid.signals import terminable

    if not cells:
        return []
    jobs = min(jobs, len(cells))
    where = f"the cluster at {scheduler}" if scheduler else f"{jobs} process{'es' if jobs > 1 else ''} of this machine"
    STATUS.print(f"training {len(cells)} runs on {where}.", markup=False, soft_wrap=True)
    failed: list[RunFailed] = []
    try:
        with terminable(), ExitStack() as held:
            client = held.enter_context(connect(scheduler, insecure)) if scheduler else None
            grid = ClusterGrid(client, cells) if client else LocalGrid(cells, jobs)
            show = held.enter_context(grid_progress(STATUS, cells))
            for event in held.enter_context(closing(grid.events())):
                show(event)
                if isinstance(event, RunFailed):
                    failed.append(event)
    except KeyboardInterrupt:
        again = f"esacl {shlex.join(sys.argv[1:])}"
        STATUS.print(f"\ninterrupted. Continue with: {again}", markup=False, soft_wrap=True)
        raise SystemExit(130) from None
    return failed


def default_folder(recipe: Path) -> Path:
    """Where the runs of a recipe go: called after it, and after its folder in a collection named `recipes`."""
    whole = recipe.resolve().with_suffix("").parts
    return Path("runs", *(whole[len(whole) - whole[::-1].index("recipes") :] if "recipes" in whole else whole[-1:]))


def command_again(command: str, recipe: Path, seeds: Sequence[object], code: Sequence[str], *others: object) -> str:
    """The command that trained, without where and with how many processes."""
    words = [*(["--seeds", *seeds] if seeds else []), *others, *(word for name in code for word in ("--code", name))]
    return f"esacl {command} {shlex.join([str(recipe), *map(str, words)])}"


def overview(cells: Sequence[Cell]) -> Table:
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


def workers(jobs: int | None, scheduler: str | None) -> int:
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


def seeds_of(words: Sequence[str] | None) -> list[int] | None:
    """Seeds as the command line has them, apart or with commas; None where it has none."""
    if words is None:
        return None
    from esacl.grid.recipe import checked_seeds

    try:
        seeds = [int(word) for text in words for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {' '.join(words)!r} is not allowed. Allowed: whole numbers, as 0 1 2.") from None
    return checked_seeds(seeds)
