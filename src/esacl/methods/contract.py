"""What a method or a part of somebody else's must be like: told in one line before anything trains."""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from esacl.config import SLOTS
from esacl.methods.method import BASES, Method
from esacl.part import Part
from esacl.problem import Problem

RENAMED = {
    "fill": "compute_gradients",
    "remembered": "buffer_examples",
    "wanted": "rows_to_store",
    "belongings": "task_state",
}
"""Methods of parts by their names of before: nobody calls those any more."""


def slot_of(part: type[Part]) -> str:
    """The slot that a part is made for."""
    return next((slot for slot, base in BASES.items() if issubclass(part, base)), "objective")


def method_problem(found: Any) -> str | None:
    """Why something is no method, and what to do; None where it is one."""
    if not isinstance(found, Method):
        kind = found.__name__ if isinstance(found, type) else type(found).__name__
        return f"{kind} is no method. Make one: esacl.Method(about, {{slot: part}}), or esacl.combine(...)."
    problems = (part_problem(slot, part) for slot, part in found.parts.items())
    return next((problem for problem in problems if problem is not None), None)


def part_problem(slot: str, part: Any) -> str | None:
    """Why something cannot fill a slot, and what to do; None where it can."""
    base = BASES[slot]
    name = getattr(part, "__name__", repr(part))
    if not isinstance(part, type) or not issubclass(part, base):
        missing = next((method for method in _methods(base) if not hasattr(part, method)), None)
        lacks = f"it has no {missing!r}" if missing else f"it is no {base.__name__}"
        return f"{name} cannot fill the {slot} slot: {lacks}. Derive it from esacl.{base.__name__}."
    if not is_dataclass(part.Options) or any("help" not in f.metadata for f in fields(part.Options)):
        return f"{name}.Options must be a dataclass whose fields are made by esacl.option(default, help)."
    for old, new in RENAMED.items():
        if hasattr(part, old):
            return f"{name}.{old} is called {new} now. Rename it."
    return next(_misfits(part, base), None)


def _misfits(part: type[Part], base: type[Part]) -> Iterator[str]:
    """Methods that cannot be called as those of the slot are."""
    for name in _methods(base):
        own, model = inspect.getattr_static(part, name), inspect.getattr_static(base, name)
        if own is model or not inspect.isfunction(model):
            continue
        if not inspect.isfunction(own):
            yield f"{part.__name__}.{name} must be a method, but is {type(own).__name__}. Define it with def."
            continue
        words = list(inspect.signature(model).parameters)
        try:
            inspect.signature(own).bind(*words)
        except TypeError:
            given = ", ".join(inspect.signature(own).parameters)
            yield f"{part.__name__}.{name} takes ({given}), but is called with ({', '.join(words)}). Change its def."


def _methods(base: type[Part]) -> list[str]:
    """Names of the public methods of a slot."""
    return [name for name in dir(base) if not name.startswith("_") and inspect.isfunction(getattr(base, name))]


def misfit(parts: dict[str, type[Part]]) -> Problem | str | None:
    """Why the parts of a method cannot work together, and what to do; None where they can."""
    return next((reason for slot in SLOTS if (reason := parts[slot].misfit(parts)) is not None), None)
