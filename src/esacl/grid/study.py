"""A grid as its page shows it: how far it is, what it found, what failed and why."""

from collections.abc import Sequence
from pathlib import Path

from esacl.grid.plan import Cell, failures, stops
from esacl.grid.recipe import Recipe
from esacl.grid.tables import RECIPE, found_lines, grid_lines, read_grid
from esacl.report.page import Study, study_of_runs
from esacl.report.rows import Row

PAGE = "report.html"
"""The page of a grid, in its folder."""


def is_study(place: Path) -> bool:
    """Whether a folder is a grid, or holds runs, and is not itself a run."""
    return (place / RECIPE).is_file() or (place.is_dir() and not (place / "config.toml").is_file())


def study_of(recipe: Recipe, cells: Sequence[Cell], lines: Sequence[Row]) -> Study:
    """What there is of a grid."""
    finished = sum(len(line.records) for line in lines)
    told = failures(cells), stops(cells)
    return Study(recipe.title, recipe.about, lines, len(cells), finished, *told, against=recipe.against)


def read_study(places: Sequence[Path]) -> Study:
    """What folders hold: a grid, runs, or several of both together."""
    if not any(map(is_study, places)):
        return study_of_runs(places)
    if len(places) == 1 and (places[0] / RECIPE).is_file():
        recipe, cells = read_grid(places[0])
        return study_of(recipe, cells, grid_lines(cells))
    lines = found_lines(places)
    runs = sum(len(line.records) for line in lines)
    title = ", ".join(place.resolve().name for place in places)
    grids = [place for place in places if (place / RECIPE).is_file()]
    plans = [(place.resolve().name, read_grid(place)[1]) for place in grids]
    failed = [(f"{grid}: {name}", reason) for grid, cells in plans for name, reason in failures(cells)]
    stopped = [(f"{grid}: {name}", reason) for grid, cells in plans for name, reason in stops(cells)]
    about = "" if grids else _NO_PLAN
    return Study(title, about, lines, max(runs, sum(line.wanted for line in lines)), runs, failed, stopped)


_NO_PLAN = "These folders hold no grid.json, which says what was planned: the finished runs are shown."
