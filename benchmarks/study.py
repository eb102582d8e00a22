"""A study: every row of a recipe at every point of its axes, with several seeds, run side by side and tabulated.

What is finished is not repeated, and what was interrupted goes on. recipes/digits-bounds.toml shows a recipe.
Run: python benchmarks/study.py recipes/NAME.toml (or: make study-NAME)
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from study_recipe import Point, assignment, checked_seeds, read_recipe
from study_tables import Line, document, draw, figures

from esacl.artifacts import RunDirectory
from esacl.errors import ConfigError, EsaclError, unknown_name
from esacl.files import write_atomic
from esacl.recipes import FLAGS
from esacl.report import load_run
from esacl.report.units import percent, seconds

STATUS = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
LOG_LINES = 12  # of a failed run that are shown


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One point with one seed: its directory, and beside it its log and what was asked for."""

    point: Point
    seed: int
    path: Path

    def beside(self, ending: str) -> Path:
        """A file that belongs to the run."""
        return self.path.with_name(f"{self.seed}.{ending}")

    def wish(self) -> str:
        """What the recipe asks for."""
        return json.dumps({**self.point.settings, "seed": self.seed}, indent=1, sort_keys=True, default=str) + "\n"

    def state(self) -> str:
        """new, begun, finished, or changed: it was asked for with other settings."""
        asked = self.beside("asked.json")
        if not (self.path / "config.toml").exists():
            return "new"
        if not asked.exists():
            raise ConfigError(
                f"{str(self.path)!r} holds a run that no study began (there is no {asked.name} beside it). "
                f"Move it away, or choose another --out."
            )
        if asked.read_text(encoding="utf-8") != self.wish():
            return "changed"
        return "finished" if RunDirectory(self.path).results.exists() else "begun"

    def arguments(self, state: str) -> list[str]:
        """The command that begins or continues it."""
        if state == "begun":
            return ["resume", str(self.path)]
        words = ["run"]
        for path, value in {**self.point.settings, "seed": self.seed}.items():
            plain = path in FLAGS and not isinstance(value, bool | list)
            words += [f"{FLAGS[path]}={value}"] if plain else ["--set", assignment(path, value)]
        return [*words, "--out", str(self.path), *(["--overwrite"] if state == "changed" else [])]

    def start(self) -> "subprocess.Popen[bytes]":
        """Begin or continue it in a process of its own."""
        state = self.state()
        if state == "changed":  # the old one goes first: whatever happens now, its results are not taken for the new
            with RunDirectory(self.path).locked():
                RunDirectory(self.path).begin(self.point.config(self.seed), overwrite=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if state != "begun":
            write_atomic(self.beside("asked.json"), self.wish())
        threads = str(self.point.settings.get("machine.threads", 1))
        return launch(self.arguments(state), self.beside("log"), {**os.environ, "OMP_NUM_THREADS": threads})


def launch(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """The command line with these arguments; all that it says goes to the end of the log."""
    with log.open("ab") as file:
        file.write(f"$ esacl {shlex.join(arguments)}\n".encode())
        file.flush()
        command = [sys.executable, "-m", "esacl", *arguments]
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


def train(runs: Sequence[Run], jobs: int) -> int:
    """Bring runs to their end, several at a time; returns how many failed."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    waiting, active, failed = deque(runs), dict[Run, "subprocess.Popen[bytes]"](), 0
    with Progress(*columns, TimeRemainingColumn(), console=STATUS, speed_estimate_period=1e9) as bars:
        bar = bars.add_task("runs", total=len(runs))
        bars.advance(bar, 0)  # the clock of the estimate starts here
        try:
            while waiting or active:
                problems: dict[Run, str] = {}
                while waiting and len(active) < jobs:
                    run = waiting.popleft()
                    try:
                        active[run] = run.start()
                    except EsaclError as error:
                        problems[run] = str(error)
                for run in [run for run, process in active.items() if process.poll() is not None]:
                    if active.pop(run).returncode == 0:
                        bars.advance(bar)
                        bars.console.print(_sentence(run))
                    else:
                        lines = run.beside("log").read_text(encoding="utf-8", errors="replace").splitlines()
                        problems[run] = "\n".join(lines[-LOG_LINES:]) + f"\n(the log is {run.beside('log')})"
                for run, told in problems.items():
                    bars.advance(bar)
                    bars.console.print(f"FAILED {run.point.label}, seed {run.seed}:\n{told}", style="red")
                failed += len(problems)
                sleep(0.1)
        finally:
            for process in active.values():
                process.terminate()
            for process in active.values():
                process.wait()
    return failed


def _sentence(run: Run) -> str:
    found = load_run(run.path)
    scores = f"Task-IL {percent(found.accuracy.task_il)}, Class-IL {percent(found.accuracy.class_il)}"
    return f"{run.point.label}, seed {run.seed}: {scores}, {seconds(found.seconds.total)}"


def study(given: argparse.Namespace) -> int:
    """Train what is missing of a recipe, then write what there is; returns the exit status."""
    recipe = read_recipe(given.recipe)
    seeds = recipe.seeds if given.seeds is None else given.seeds
    out = given.out or Path("runs/studies") / given.recipe.stem
    runs = [Run(point, seed, out / point.slug / str(seed)) for point in recipe.points for seed in seeds]
    rows = {point.row for point in recipe.points}
    for name in given.only or []:
        if name not in rows:
            raise unknown_name("row", name, rows)
    missing = [run for run in runs if run.state() != "finished" and run.point.row in (given.only or rows)]
    failed = 0
    if given.dry_run:
        for run in missing:
            STATUS.print(f"{run.state()}: esacl {shlex.join(run.arguments(run.state()))}")
        STATUS.print(f"{len(missing)} of {len(runs)} runs to do.")
    elif missing:
        with RunDirectory(out).locked():
            failed = train(missing, given.jobs)
    lines = [
        Line(point, [load_run(run.path) for run in runs if run.point is point and run.state() == "finished"])
        for point in recipe.points
    ]
    if any(line.records for line in lines):
        text = document(recipe, seeds, lines, f"python benchmarks/study.py {given.recipe}")
        write_atomic(out / "table.md", text)
        write_atomic(out / "figures.csv", figures(lines))
        print(text)
        if given.plot:
            draw(lines, recipe.title, out / "cost.png")
        STATUS.print(f"written: {out / 'table.md'}, figures.csv{', cost.png' if given.plot else ''}")
    if failed:
        STATUS.print(f"{failed} of {len(missing)} runs failed; the same command tries them again.", style="red")
    return 1 if failed else 0


def numbers(text: str) -> list[int]:
    """Seeds as the command line has them."""
    try:
        seeds = [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text!r} is not allowed. Allowed: whole numbers, such as 0,1,2.") from None
    return checked_seeds(seeds)


def jobs(text: str) -> int:
    """How many runs at a time."""
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--jobs {text!r} is not allowed. Allowed: a whole number of at least 1.")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; what a user can cause is one message, never a traceback."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, help="TOML file with rows, axes and seeds")
    parser.add_argument("--out", type=Path, help="folder of the study [default: runs/studies/NAME]")
    parser.add_argument("--jobs", default="2", help="runs at a time, of one thread each [default: 2]")
    parser.add_argument("--seeds", help="instead of those of the recipe, such as 0,1,2")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="train these rows only; the table shows all")
    parser.add_argument("--dry-run", action="store_true", help="train nothing: say what is missing, show what is there")
    parser.add_argument("--plot", action="store_true", help="draw accuracy over executed FLOPs (cost.png)")
    words = sys.argv[1:] if arguments is None else list(arguments)
    given = parser.parse_args(words)
    try:
        given.jobs = jobs(given.jobs)  # here, since argparse would put its own words around the error
        given.seeds = None if given.seeds is None else numbers(given.seeds)
        return study(given)
    except EsaclError as error:
        STATUS.print(f"error: {error}", style="red")
        return 2
    except KeyboardInterrupt:
        STATUS.print(f"interrupted. Continue with: python benchmarks/study.py {shlex.join(words)}")
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise SystemExit(main())
