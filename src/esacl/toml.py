"""Settings written as TOML, as nested tables."""

import tomllib
from collections.abc import Mapping
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from esacl.errors import ConfigError


class Tables(dict[str, Any]):
    """The tables of a file, and where that is."""

    path = ""


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document; whatever is wrong with it, numbers of too many digits as well, is a ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_toml(path: Path) -> Tables:
    """The tables of a TOML file."""
    try:
        tables = Tables(parse_toml(path.read_text(encoding="utf-8")))
        tables.path = f"the file {str(path)!r}"
        return tables
    except FileNotFoundError:
        raise ConfigError(f"there is no config file {str(path)!r}. Check the path given to --config.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read the config file {str(path)!r} as TOML: {error}. Mend that line, or use another file."
        ) from None


def flattened(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Every value of nested tables by its dotted name.

    >>> flattened({"seed": 1, "train": {"epochs": 3}})
    {'seed': 1, 'train.epochs': 3}
    """
    found: dict[str, Any] = {}
    for name, value in tables.items():
        inside = isinstance(value, Mapping)
        found |= {f"{name}.{key}": each for key, each in value.items()} if inside else {name: value}
    return found


def set_option(tables: dict[str, Any], assignment: str) -> None:
    """Apply one `part.key=value` to nested tables.

    >>> tables = {"train": {"epochs": 10}}
    >>> set_option(tables, "train.epochs=3")
    >>> set_option(tables, "objective.alpha=0.2")
    >>> tables
    {'train': {'epochs': 3}, 'objective': {'alpha': 0.2}}
    """
    path, equals, text = assignment.partition("=")
    names = path.strip().split(".")
    if not equals or not all(names) or len(names) > 2:
        raise ConfigError(f"--set takes part.key=value, such as train.epochs=5, but {assignment!r} was given.")
    try:
        value = parse_toml(f"v = {text}")["v"]
    except ValueError:
        value = text.strip()  # a bare word is a string
    place = tables if len(names) == 1 else tables.setdefault(names[0], {})
    if not isinstance(place, dict):
        raise ConfigError(f"{names[0]!r} is a value, not a table of options, but {assignment!r} was given.")
    place[names[-1]] = value


def plain_value(value: Any) -> Any:
    """Paths as text, and whole numbers of other libraries as Python's."""
    if isinstance(value, PathLike):
        return str(fspath(value))
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, Integral) else value
