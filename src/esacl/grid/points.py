"""Points of a grid: rows at every place of their axes, each with the settings of its runs."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from esacl.config import CHOSEN, SHORT_NAMES, SLOTS, Config, PartsConfig, StreamConfig, set_option
from esacl.errors import ConfigError, unknown_name
from esacl.methods import check_settings, compose
from esacl.nets import is_own
from esacl.report.units import clean
from esacl.streams import available

LISTS = {"methods": "method", "streams": "stream", "sparsities": "sparsity"}
"""The short form: lists that are axes of their own, and the setting that each of them moves."""

SETTINGS = sorted(SHORT_NAMES.keys() - {"seed"})
DEFAULTS = {"machine.threads": 1}
"""What runs of a grid have unless the recipe says otherwise."""


@dataclass(frozen=True, slots=True)
class Point:
    """A line of the table: a row at one point of its axes."""

    row: str
    axes: Mapping[str, Any]
    settings: Mapping[str, Any]  # by dotted name
    code: tuple[str, ...] = ()  # names of code that may be started
    stop_at_chance: bool = False  # whether a run ends that has learnt nothing from its first task

    @property
    def label(self) -> str:
        """The row's name and where on its axes it is."""
        return self._told(self.axes)

    @property
    def name(self) -> str:
        """The label within the table of its stream."""
        return self._told({name: value for name, value in self.axes.items() if name != "stream"})

    def _told(self, axes: Mapping[str, Any]) -> str:
        return clean(", ".join([self.row, *(f"{name} {value}" for name, value in axes.items())]))

    @property
    def slug(self) -> str:
        """The label as the name of a folder."""
        return re.sub(r"[^\w.+=-]+", "-", self.label).strip("-.")

    def config(self, seed: int) -> Config:
        """The settings of the run with this seed, checked."""
        tables: dict[str, Any] = {}
        for path, value in {**self.settings, "seed": seed}.items():
            set_option(tables, f"{path}={json.dumps(value, ensure_ascii=False, default=str)}")
        config = Config.from_mapping(tables)
        _check_code(config, self.code)
        check_settings(config, compose(config, code=self.code))
        _check_processes(config.machine.processes)
        _check_stream(config.stream)
        return config


@dataclass(frozen=True, slots=True)
class Shared:
    """What a recipe says of all rows."""

    base: Mapping[str, Any]  # by dotted name
    axes: Mapping[str, Any]
    lists: Mapping[str, Any]  # of the short form
    code: tuple[str, ...] = ()  # that may be started
    stop_at_chance: bool = False


def _check_processes(count: int) -> None:
    """Refuse runs that would crowd out the others."""
    if count > 1:
        raise ConfigError(
            "{given} in a recipe: a grid trains many runs at once, each in one process.",
            "machine.processes",
            count,
            remedy="Leave it out, or train single runs with `esacl run --processes {count}`.",
            count=count,
        )


def _check_code(config: Config, allowed: Collection[str]) -> None:
    """Refuse code that only the recipe names, and objects that no worker has."""
    for name in [*config.code(), *([config.net.backbone] if is_own(config.net.backbone) else [])]:
        if name.startswith("<") or name not in allowed:
            raise ConfigError(
                f"{name!r} is code, which no file is allowed to start. If you trust it, and all workers have it, add "
                f"--code {name}."
            )


def _check_stream(stream: StreamConfig) -> None:
    """Refuse a stream that no worker can open by its name."""
    name = stream.name
    names = [info.name for info in available()]
    if name.partition(":")[0] == "arrays":
        raise ConfigError(
            f"stream {name!r} is in the memory of one Python process, and a grid runs in many. Write the images "
            f"to a folder and use folder:PATH, or train it in Python with esacl.run(..., stream=...)."
        )
    if name not in names and not name.startswith("folder:") and not stream.is_code:
        raise unknown_name("stream", name, names)


def dotted(table: Mapping[str, Any], where: str, also: Sequence[str] = ()) -> dict[str, Any]:
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


def expand_row(row: Any, shared: Shared) -> Iterator[Point]:
    """A row at every point of its axes; the row wins over the base, and its lists over those of the recipe."""
    table = row if isinstance(row, dict) else {}
    own_lists = {name: table[name] for name in LISTS if name in table}
    lists = {name: values for name, values in shared.lists.items() if LISTS[name] not in table} | own_lists
    name, named = table.get("name"), "name" in table or "methods" not in lists
    if named and (not isinstance(name, str) or not re.search(r"\w", name) or "\n" in name):
        raise ConfigError(f"a row of the recipe has the name {name!r}. Allowed: a line with a letter or digit in it.")
    where = f"row {name!r}" if named else "the row without a name"
    axes: Any = table.get("axes", shared.axes)
    if not isinstance(axes, dict):
        raise ConfigError(f"axes = {axes!r} in {where} is not allowed. Allowed: a table of lists, or {{}} to run once.")
    own = dotted(table, where, also=("name", "axes", "stop_at_chance", "twins", *LISTS))
    stop = table.get("stop_at_chance", shared.stop_at_chance)
    if not isinstance(stop, bool):
        raise ConfigError(f"stop_at_chance = {stop!r} in {where} is not allowed. Allowed: true or false.")
    all_axes = [(LISTS[plural], values) for plural, values in lists.items()] + list(axes.items())
    _check_axes(all_axes, own, where)
    settings = {**DEFAULTS, **shared.base, **own}
    chosen = lists.get("methods", [settings.get("method", Config().method)])
    for each in chosen:
        moving = dict(all_axes) | ({"method": [each]} if "methods" in lists else {})
        has = partial(_has, settings=settings, code=shared.code)
        if "sparsities" in lists and not has(each, SHORT_NAMES["sparsity"]):
            del moving["sparsity"]
        useful = {path: value for path, value in settings.items() if not _useless(each, path, chosen, has)}
        for point in _points(str(name if named else each), named, moving, useful):
            yield replace(point, code=shared.code, stop_at_chance=stop)


def _points(row: str, named: bool, axes: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Point]:
    """Every point of a row; where the row is called after its method, that is no axis."""
    for values in product(*axes.values()):
        place = dict(zip(axes, values))
        moved = {SHORT_NAMES.get(axis, axis): value for axis, value in place.items()}
        shown = place if named else {axis: value for axis, value in place.items() if axis != "method"}
        yield Point(row, shown, {path: value for path, value in {**settings, **moved}.items() if value != ""})


def _check_axes(axes: Sequence[tuple[str, Any]], own: Mapping[str, Any], where: str) -> None:
    """Refuse axes that are no settings, have no values or are given twice."""
    taken = {*own}
    for axis, values in axes:
        path = str(SHORT_NAMES.get(axis, axis))
        if axis not in SETTINGS and "." not in axis:
            raise unknown_name(f"axis of {where}", axis, SETTINGS, 'Others are written as "part.key", in quotes.')
        if not isinstance(values, list) or not values or any(value in values[:n] for n, value in enumerate(values)):
            raise ConfigError(f"axis {axis} = {values!r} is not allowed. Allowed: a list of different values.")
        if path in taken:
            raise ConfigError(f"{where} sets {axis!r}, which is an axis too. Give the row axes without it, or {{}}.")
        taken.add(path)


def _has(name: Any, path: str, settings: Mapping[str, Any], code: Collection[str]) -> bool:
    """Whether a method, with the parts that the settings choose, has an option."""
    slot, _, key = path.partition(".")
    parts = {each: settings[f"parts.{each}"] for each in CHOSEN if f"parts.{each}" in settings}
    composed = compose(Config(str(name), parts=PartsConfig(**parts)), code=code)
    return key in composed.options(slot)


def _useless(name: Any, path: str, others: Sequence[Any], has: Callable[[Any, str], bool]) -> bool:
    """Whether a setting is for other methods of the same list, such as a buffer for those that remember."""
    if path.partition(".")[0] not in SLOTS or has(name, path):
        return False
    return any(has(other, path) for other in others)
