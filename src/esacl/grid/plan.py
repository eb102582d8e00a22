"""The plan of a grid: every point with every seed, where it belongs, and how far it is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from esacl.artifacts import RunDirectory
from esacl.config import Config
from esacl.errors import ConfigError, unknown_name
from esacl.files import write_atomic
from esacl.grid.points import Point
from esacl.grid.recipe import Recipe

State = Literal["new", "begun", "changed", "stopped", "finished"]

ENDED: tuple[State, ...] = ("finished", "stopped")
"""States of runs that are not trained any further."""

ASIDE = {"train.unpruned"}
"""Settings that add a figure to a run and change no other: a run is not trained again for them."""


def _text(path: Path) -> str:
    """What a grid left beside a run; damage to it is no reason to stop."""
    return path.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One point with one seed: its directory, and beside it what was asked for."""

    point: Point
    seed: int
    path: Path

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.point.label}, seed {self.seed}"

    @property
    def directory(self) -> RunDirectory:
        """Its files."""
        return RunDirectory(self.path)

    def config(self) -> Config:
        """Its settings."""
        return self.point.config(self.seed)

    def beside(self, ending: str) -> Path:
        """A file that belongs to the run."""
        return self.path.with_name(f"{self.seed}.{ending}")

    def wish(self) -> str:
        """What the recipe asks for, as far as it makes the run another one."""
        settings = {name: value for name, value in self.point.settings.items() if name not in ASIDE}
        return json.dumps({**settings, "seed": self.seed}, indent=1, sort_keys=True, default=str) + "\n"

    def state(self) -> State:
        """How far it is; changed: it was asked for with other settings."""
        asked = self.beside("asked.json")
        if not (self.path / "config.toml").exists():
            return "new"
        if not asked.exists():
            raise ConfigError(
                f"{str(self.path)!r} holds a run that no grid began (there is no {asked.name} beside it). "
                f"Move it away, or choose another --out."
            )
        if _text(asked) != self.wish():
            return "changed"
        if self.directory.results.exists():
            return "finished"
        return "stopped" if self.point.stop_at_chance and self.beside("stopped").exists() else "begun"

    def stop(self, reason: str) -> None:
        """Leave beside the run why it is not trained any further."""
        write_atomic(self.beside("stopped"), f"{reason}\n")

    def stopped(self) -> str | None:
        """Why it was stopped; None where it was not."""
        return _text(self.beside("stopped")).strip() if self.state() == "stopped" else None

    def fail(self, reason: str, trace: str = "") -> str:
        """Leave beside the run why it is not finished, and what only a developer can read; returns what to tell."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if trace:
            write_atomic(self.beside("log"), trace)
            reason = f"{reason} (all of it is in {self.beside('log')})"
        write_atomic(self.beside("failed"), f"{reason}\n")
        return reason

    def failure(self) -> str | None:
        """Why its last attempt failed; None where none has, or it has been begun again since."""
        note = self.beside("failed")
        return _text(note).strip() if note.exists() and self.state() not in ENDED else None

    def claim(self, directory: RunDirectory) -> State:
        """Make its directory, which is held, that of a run with these settings; returns what it was before.

        A run that is begun stays as it is, and so does one that has ended.
        """
        state = self.state()
        if state in ENDED:
            return state
        for note in ("failed", "stopped"):
            self.beside(note).unlink(missing_ok=True)
        if state == "changed":  # first, so that whatever happens now its results are not taken for the new ones
            directory.begin(self.config(), overwrite=True)
        if state in ("new", "changed"):
            write_atomic(self.beside("asked.json"), self.wish())
        if state == "new":
            directory.begin(self.config())
        return state


def lay_out(recipe: Recipe, out: Path, seeds: Sequence[int] | None = None) -> list[Cell]:
    """Every run of a recipe, point by point."""
    chosen = recipe.seeds if seeds is None else seeds
    return [Cell(point, seed, out / point.slug / str(seed)) for point in recipe.points for seed in chosen]


def missing(cells: Sequence[Cell], only: Sequence[str] = ()) -> list[Cell]:
    """The runs that are neither finished nor stopped, of these rows or of all."""
    rows = {cell.point.row for cell in cells}
    for name in only:
        if name not in rows:
            raise unknown_name("row", name, rows)
    return [cell for cell in cells if cell.point.row in (only or rows) and cell.state() not in ENDED]


def failures(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """The runs whose last attempt failed, and why."""
    return [(cell.name, reason) for cell in cells if (reason := cell.failure()) is not None]


def stops(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """The runs that were stopped, and why."""
    return [(cell.name, reason) for cell in cells if (reason := cell.stopped()) is not None]
