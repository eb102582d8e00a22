"""Typed options: a dataclass field with a help line and bounds, and a parser with errors for people."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from math import isfinite
from sys import float_info
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from esacl.errors import ConfigError, unknown_name

T = TypeVar("T")
MAX = int(float_info.max)


@dataclass(frozen=True, slots=True)
class NoOptions:
    """A part without settings."""


def option(default: Any, help: str, *, low: float | None = None, high: float | None = None) -> Any:
    """A dataclass field that knows what it is for and which values it admits (bounds included)."""
    return field(default=default, metadata={"help": help, "low": low, "high": high})


def parse(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """An instance of the dataclass `kind`, with every value checked against its type and bounds."""
    hints = get_type_hints(kind)
    known: dict[str, Field[Any]] = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise unknown_name("option" if not where else f"option of {where}", name, known)
    checked = {
        name: check(value, hints[name], f"{where}.{name}" if where else name, known[name].metadata)
        for name, value in values.items()
    }
    return kind(**checked)


def check(value: Any, hint: Any, where: str, bounds: Mapping[str, Any]) -> Any:
    """`value` as the type `hint`, or an error that says what is allowed."""
    low, high = bounds.get("low"), bounds.get("high")
    for kind in _alternatives(hint):
        fits, result = _as(value, kind)
        if fits and (result is None or ((low is None or result >= low) and (high is None or result <= high))):
            return result
    raise ConfigError("{given} is not allowed.", where, value, allowed=describe(hint, bounds))


def describe(hint: Any, bounds: Mapping[str, Any]) -> str:
    """What an option admits, in words.

    >>> describe(int | None, {"low": 1})
    'a whole number of at least 1, or nothing'
    >>> describe(Literal["a", "b"], {})
    "'a' or 'b'"
    """
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "nothing"}
    low, high = bounds.get("low"), bounds.get("high")
    if low is not None and high is not None:
        limits = f" from {low} to {high}"
    else:
        limits = f" of at least {low}" if low is not None else f" of at most {high}" if high is not None else ""
    parts = []
    for kind in _alternatives(hint):
        if get_origin(kind) is Literal:
            parts.append(" or ".join(repr(choice) for choice in get_args(kind)))
        else:
            parts.append(words[kind] + (limits if kind in (int, float) else ""))
    return ", or ".join(parts)


class OptionHelp(NamedTuple):
    """What is told of an option."""

    default: Any
    help: str
    allowed: str


def helps(kind: Any) -> dict[str, OptionHelp]:
    """What is told of each option of a dataclass."""
    hints = get_type_hints(kind)
    return {
        f.name: OptionHelp(
            None if f.default is MISSING else f.default, f.metadata["help"], describe(hints[f.name], f.metadata)
        )
        for f in fields(kind)
        if "help" in f.metadata
    }


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _as(value: Any, kind: Any) -> tuple[bool, Any]:
    """Whether `value` is of `kind`, and the value as that kind. A bool is never a number."""
    if get_origin(kind) is Literal:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        return text in get_args(kind), text
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return (True, float(value)) if abs(value) <= MAX else (False, None)
    if kind in (int, float) and isinstance(value, bool):
        return False, None
    if isinstance(value, float) and not isfinite(value):
        return False, None
    return isinstance(value, kind), value
