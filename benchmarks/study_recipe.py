"""The recipe of a study: rows, axes and seeds in a TOML file, and the points that come of them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from esacl.config import SHORT_NAMES, Config, read_toml, set_option
from esacl.errors import ConfigError, EsaclError, unknown_name
from esacl.recipes import check_settings

KINDS: dict[str, type] = {"title": str, "about": str, "seeds": list, "base": dict, "axes": dict, "rows": list}
WORDS: dict[type, str] = {str: "text", list: "a list", dict: "a table"}
SETTINGS = sorted(SHORT_NAMES.keys() - {"seed"})


@dataclass(frozen=True, slots=True)
class Point:
    """A line of the table: a row at one point of its axes."""

    row: str
    axes: Mapping[str, Any]
    settings: Mapping[str, Any]  # by dotted name

    @property
    def label(self) -> str:
        """The row's name and where on its axes it is."""
        return ", ".join([self.row, *(f"{name} {value}" for name, value in self.axes.items())])

    @property
    def slug(self) -> str:
        """The label as the name of a folder."""
        return re.sub(r"[^\w.+=-]+", "-", self.label).strip("-.")

    def config(self, seed: int) -> Config:
        """The settings of the run with this seed, checked."""
        tables: dict[str, Any] = {}
        for path, value in {**self.settings, "seed": seed}.items():
            set_option(tables, assignment(path, value))
        config = Config.from_mapping(tables)
        check_settings(config)
        return config


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a study compares."""

    title: str
    about: str
    seeds: list[int]
    points: list[Point]


def assignment(path: str, value: Any) -> str:
    """A setting as --set takes it."""
    return f"{path}={json.dumps(value, ensure_ascii=False, default=str)}"


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file; what cannot be run is told here, before anything starts."""
    if not path.is_file():
        raise ConfigError(f"there is no recipe {str(path)!r}. Give a TOML file, such as recipes/digits-bounds.toml.")
    recipe = {"title": path.stem, "about": "", "seeds": [0], "base": {}, "axes": {}, "rows": [], **read_toml(path)}
    for name, value in recipe.items():
        if name not in KINDS:
            raise unknown_name("key of the recipe", name, KINDS)
        if not isinstance(value, KINDS[name]):
            raise ConfigError(f"{name} = {value!r} is not allowed in a recipe. Allowed: {WORDS[KINDS[name]]}.")
    if not recipe["rows"]:
        raise ConfigError(f"the recipe {str(path)!r} has no rows. Write at least one [[rows]] with a name.")
    base = _dotted(recipe["base"], "base")
    points = [point for row in recipe["rows"] for point in _expand(row, base, recipe["axes"])]
    _check(points)
    return Recipe(recipe["title"], recipe["about"], checked_seeds(recipe["seeds"]), points)


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
            point.config(seed=0)
        except EsaclError as error:
            raise ConfigError(f"row {point.label!r}: {error}") from None


def _dotted(table: Mapping[str, Any], where: str, also: Sequence[str] = ()) -> dict[str, Any]:
    """The settings of a table by their dotted names: the short ones, and the entries of `set`."""
    given = table.get("set", {})
    if not isinstance(given, dict) or any(isinstance(value, dict) for value in given.values()):
        raise ConfigError(f'set = {given!r} in {where} is not allowed. Allowed: {{ "part.key" = value }}, in quotes.')
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name in SETTINGS:
            found[SHORT_NAMES[name]] = value
        elif name not in ("set", *also):
            raise unknown_name(f"setting of {where}", name, [*SETTINGS, "set", *also])
    for path in given.keys() & {*found, "seed"}:
        raise ConfigError(f"{path!r} is given twice in {where}: leave it out of set (for seeds, write seeds = [...]).")
    return found | given


def _expand(row: Any, base: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[Point]:
    """A row at every point of its axes; the row wins over the base."""
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(name, str) or not re.search(r"\w", name) or "\n" in name:
        raise ConfigError(f"a row of the recipe has the name {name!r}. Allowed: a line with a letter or digit in it.")
    where = f"row {name!r}"
    axes: Any = row.get("axes", shared)
    if not isinstance(axes, dict):
        raise ConfigError(f"axes = {axes!r} in {where} is not allowed. Allowed: a table of lists, or {{}} to run once.")
    own = _dotted(row, where, also=("name", "axes"))
    taken: set[str] = {*own}
    for axis, values in axes.items():
        path = str(SHORT_NAMES.get(axis, axis))
        if axis not in SETTINGS and "." not in axis:
            raise unknown_name(f"axis of {where}", axis, SETTINGS, 'Others are written as "part.key", in quotes.')
        if not isinstance(values, list) or not values or any(value in values[:n] for n, value in enumerate(values)):
            raise ConfigError(f"axis {axis} = {values!r} is not allowed. Allowed: a list of different values.")
        if path in taken:
            raise ConfigError(f"{where} sets {axis!r}, which is an axis too. Give the row axes without it, or {{}}.")
        taken.add(path)
    for values in product(*axes.values()):
        moved = {SHORT_NAMES.get(axis, axis): value for axis, value in zip(axes, values)}
        merged = {"machine.threads": 1, **base, **own, **moved}
        yield Point(name, dict(zip(axes, values)), {path: value for path, value in merged.items() if value != ""})
