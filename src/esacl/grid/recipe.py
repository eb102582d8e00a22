"""The recipe of a grid: rows, axes and seeds in a TOML file, and the points that come of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esacl.config import read_toml
from esacl.errors import ConfigError, EsaclError, naming, unknown_name
from esacl.grid.points import LISTS, Point, Shared, dotted, expand_row
from esacl.grid.twins import check_kinds, twins
from esacl.report.differences import check_row
from esacl.report.rows import Row
from esacl.short_names import as_recipe

KINDS: dict[str, type] = {
    "title": str,
    "about": str,
    "seeds": list,
    "against": str,
    "stop_at_chance": bool,
    "twins": list,
    "base": dict,
    "axes": dict,
    "rows": list,
    "tune": dict,
    **dict.fromkeys(LISTS, list),
}
WORDS: dict[type, str] = {str: "text", list: "a list", dict: "a table", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a grid compares."""

    title: str
    about: str
    seeds: list[int]
    points: list[Point]
    against: str | None = None  # the row that its page compares the others with


def read_recipe(path: Path, code: Collection[str] = ()) -> Recipe:
    """The recipe in a file; what cannot be run is told here, before anything starts.

    `code` are names of code that may be started: what only the file names is refused.
    """
    given = read_tables(path)
    if "tune" in given or any(isinstance(row, dict) and "tune" in row for row in rows_of(given, path)):
        raise ConfigError(
            f"the recipe {str(path)!r} says what to tune, and a grid chooses nothing. Run it with `esacl tune {path}`, "
            f"then `esacl grid` with the chosen.toml that it writes."
        )
    wanted = _with_kinds(given, path, code)
    points = [point for point, _ in wanted]
    _check(points)
    return recipe_of(given, [*points, *twins(wanted)], path)


def read_tables(path: Path) -> dict[str, Any]:
    """A recipe as it is written."""
    if not path.is_file():
        raise ConfigError(f"there is no recipe {str(path)!r}. Give a TOML file, such as recipes/digits/bounds.toml.")
    given = read_toml(path)
    for name, value in given.items():
        if name not in KINDS:
            raise unknown_name("key of the recipe", name, KINDS)
        if not isinstance(value, KINDS[name]):
            raise ConfigError(f"{name} = {value!r} is not allowed in a recipe. Allowed: {WORDS[KINDS[name]]}.")
    return given


def rows_of(given: Mapping[str, Any], path: Path) -> list[Any]:
    """The rows of a recipe; one without a name stands for each of its methods."""
    rows: list[Any] = given.get("rows") or ([{}] if "methods" in given else [])
    if not rows:
        raise ConfigError(f"the recipe {str(path)!r} has no rows. Write methods = [...], or [[rows]] with a name each.")
    return rows


def expand(given: Mapping[str, Any], path: Path, code: Collection[str] = ()) -> list[Point]:
    """Every row at every point of its axes."""
    return [point for point, _ in _with_kinds(given, path, code)]


def _with_kinds(given: Mapping[str, Any], path: Path, code: Collection[str]) -> list[tuple[Point, list[str]]]:
    """Every point, and the kinds of narrow dense twins that are asked for beside it."""
    lists = {name: given[name] for name in LISTS if name in given}
    base = dotted(given.get("base", {}), "base")
    shared = Shared(base, given.get("axes", {}), lists, tuple(code), given.get("stop_at_chance", False))
    return [(point, _kinds(row, given)) for row in rows_of(given, path) for point in expand_row(row, shared)]


def recipe_of(given: Mapping[str, Any], points: list[Point], path: Path) -> Recipe:
    """The recipe with these points, each of which can be run."""
    _check(points)
    seeds, against = checked_seeds(given.get("seeds", [0])), given.get("against")
    if against is not None:
        _check_against(against, points)
    return Recipe(given.get("title", path.stem), given.get("about", ""), seeds, points, against)


def _kinds(row: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """The narrow dense twins that a row asks for, or the recipe for all rows."""
    return check_kinds(row.get("twins", given.get("twins", [])), f"row {row.get('name', '')!r}")


def checked_seeds(seeds: Sequence[Any]) -> list[int]:
    """The same seeds, if they are seeds."""
    if not seeds or any(type(seed) is not int or seed < 0 for seed in seeds) or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds = {seeds!r} is not allowed. Allowed: different whole numbers of at least 0.")
    return list(seeds)


def _check(points: Sequence[Point]) -> None:
    """Refuse points that share a folder, and settings that no run would accept."""
    places: dict[str, Point] = {}
    for point in points:
        twin = places.setdefault(point.slug.casefold(), point)
        if twin is not point:
            raise ConfigError(f"{point.label!r} has the name or the folder of {twin.label!r}. Rename one of the rows.")
        try:
            with naming(as_recipe):
                point.config(seed=0)
        except EsaclError as error:
            raise error.within(f"row {point.label!r}") from None


def _check_against(against: str, points: Sequence[Point]) -> None:
    """Refuse a row to compare with that is not there, or is several at the same axis values."""
    check_row(
        [Row(point.name, (), 0, str(point.settings.get("stream.name")), "", axes=point.axes) for point in points],
        against,
    )
