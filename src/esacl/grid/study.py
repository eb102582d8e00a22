"""A grid as its page shows it: how far it is, what it found, what failed and why."""

from collections.abc import Sequence
from pathlib import Path

from esacl.grid.plan import Cell, failures
from esacl.grid.recipe import Recipe
from esacl.grid.tables import RECIPE, found_lines, grid_lines, read_grid
from esacl.report.sheet import Line
from esacl.report.study import Study

PAGE = "report.html"
"""The page of a grid, in its folder."""


def is_study(place: Path) -> bool:
    """Whether a folder is a grid, or holds runs, and is not itself a run."""
    return (place / RECIPE).is_file() or (place.is_dir() and not (place / "config.toml").is_file())


def study_of(recipe: Recipe, cells: Sequence[Cell], lines: Sequence[Line]) -> Study:
    """What there is of a grid."""
    finished = sum(len(line.records) for line in lines)
    return Study(recipe.title, recipe.about, lines, len(cells), finished, failures(cells))


def read_study(places: Sequence[Path]) -> Study:
    """What folders hold: a grid, or several grids and runs together."""
    if len(places) == 1 and (places[0] / RECIPE).is_file():
        recipe, cells = read_grid(places[0])
        return study_of(recipe, cells, grid_lines(cells))
    lines = found_lines(places)
    runs = sum(len(line.records) for line in lines)
    title = ", ".join(place.resolve().name for place in places)
    grids = [place for place in places if (place / RECIPE).is_file()]
    failed = [
        (f"{place.resolve().name}: {name}", reason) for place in grids for name, reason in failures(read_grid(place)[1])
    ]
    about = "" if grids else _NO_PLAN
    return Study(title, about, lines, max(runs, sum(line.wanted for line in lines)), runs, failed)


_NO_PLAN = "These folders hold no grid.json, which says what was planned: the finished runs are shown."
