"""Methods and parts by name: those of this library, those of plugins, and SPARSITY-BASE for any two that fit."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from esacl import plugins
from esacl.code import check_allowed, imported, is_own
from esacl.config import Config
from esacl.errors import ConfigError, unknown_name
from esacl.methods.catalogue import METHODS, PARTS, RENAMED
from esacl.methods.contract import method_problem, part_problem, slot_of
from esacl.methods.method import Method, about_part, combine
from esacl.part import Part

Given = str | Method
"""A method as the user gives it: the name of code, or the object."""


def compose(config: Config, given: Method | None = None, code: Collection[str] = ()) -> Method:
    """The method of a run: what its name says, with the parts that were chosen for single slots.

    `given` is the method itself, where it was given as an object; `code` are the names of code that may be started.
    """
    base = method(config.method, code) if given is None else given
    chosen = {slot: part(slot, name, code) for slot, name in config.parts.chosen().items()}
    found = base.switched(config.options).replaced(chosen)
    return found if config.parts.readout is not None else found.with_default_readout()


def with_current_names(config: Config) -> Config:
    """The settings of a new run, where a part was given by the name that it had; what is saved keeps its names."""
    parts = {slot: RENAMED.get(slot, {}).get(name, name) for slot, name in config.parts.chosen().items()}
    return replace(config, parts=replace(config.parts, **parts))


def given_again(config: Config, given: Given | None, where: str, code: Collection[str] = ()) -> Method:
    """The method of something saved: what is the user's own was given again, as no file is allowed to start code."""
    if given is not None and name_of(given) != config.method:
        raise ConfigError(
            f"{where} has the method {config.method!r}, but {name_of(given)!r} was given. Leave it out, or give the "
            f"method of then."
        )
    allowed = {*code, given} if isinstance(given, str) else code
    try:
        if config.stream.is_code:
            check_allowed("stream", config.stream.name, allowed)
        for name in config.stream.transforms:
            check_allowed("transform", name, allowed)
        return compose(config, given if isinstance(given, Method) else None, allowed)
    except ConfigError as error:
        raise error.within(where) from None


def name_of(given: Given) -> str:
    """What a run calls a method that is given."""
    return given if isinstance(given, str) else as_method(given, f"method = {given!r}").name


def method(name: str, code: Collection[str] = ()) -> Method:
    """The method of that name."""
    if is_own(name):
        check_allowed("method", name, code)
        return as_method(imported("method", name), f"method {name!r}")
    found = _single(name)
    if found is None:
        found = next((_combined(above, base) for above, base in _halves(name)), None)
    if found is None:
        raise _unknown(name)
    return found


def as_method(found: Any, called: str) -> Method:
    """What code calls a method, or a single part, as a method; what cannot be one is refused."""
    if isinstance(found, type) and issubclass(found, Part):
        found = Method(about_part(found), {slot_of(found): found})
    problem = method_problem(found)
    if problem is not None:
        raise ConfigError(f"{called}: {problem}")
    checked: Method = found
    return checked


def part(slot: str, name: str, code: Collection[str] = ()) -> type[Part]:
    """The part of that name for a slot."""
    if is_own(name):
        check_allowed(slot, name, code)
        return _as_part(slot, imported(slot, name), f"{slot} {name!r}")
    name = RENAMED.get(slot, {}).get(name, name)
    if name in PARTS[slot]:
        return PARTS[slot][name]
    for group in _groups(slot):
        found = plugins.load(group, name)
        if found is not None:
            problem = part_problem(slot, found)
            if problem is not None:
                raise plugins.refused(group, name, problem)
            return found  # type: ignore[no-any-return]
    raise unknown_name(slot, name, part_names(slot), f"`esacl parts {slot}` describes them.")


def part_names(slot: str) -> list[str]:
    """Names of all parts of a slot, those of plugins last."""
    offered = [name for group in _groups(slot) for name in plugins.offered(group, PARTS[slot])]
    return [*PARTS[slot], *(name for name in offered if _fills(slot, name))]


def above_names() -> list[str]:
    """Methods that can stand before another in a name: those that fill the sparsity slot and no objective."""
    return [name for name, row in METHODS.items() if _stands_above(row)]


def base_names() -> list[str]:
    """Methods that another can stand before: those that train and leave the sparsity slot open."""
    return [name for name, row in METHODS.items() if "sparsity" not in row.parts and row.trains]


def plugin_methods() -> tuple[dict[str, Method], list[str]]:
    """Methods of plugins by name, and a line for each that cannot be used."""
    found: dict[str, Method] = {}
    problems = plugins.clashes("methods", METHODS)
    for name in plugins.offered("methods", METHODS):
        try:
            single = _single(name)
        except ConfigError as error:
            problems.append(str(error))
        else:
            assert single is not None
            found[name] = single
    return found, problems


def _single(name: str) -> Method | None:
    """A method that has the name for itself."""
    if name in METHODS:
        return METHODS[name]
    found = plugins.load("methods", name)
    if found is None:
        return None
    try:
        return as_method(found, "it")
    except ConfigError as error:
        raise plugins.refused("methods", name, str(error)) from None


def _halves(name: str) -> Iterator[tuple[str, str]]:
    """A name cut in two known ones, wherever that is possible."""
    words = name.split("-")
    for place in range(1, len(words)):
        above, base = "-".join(words[:place]), "-".join(words[place:])
        if _single(above) is not None and _single(base) is not None:
            yield above, base


def _combined(above: str, base: str) -> Method:
    """A method on top of another, or why there is none."""
    over, under = _single(above), _single(base)
    assert over is not None
    assert under is not None
    if not _stands_above(over):
        remedy = f"Write {base}-{above}" if _stands_above(under) else "Choose a part with its flag: `esacl parts`"
        raise ConfigError(
            f"{above}-{base}: only a sparsity strategy stands before another method in a name, and {above} is none. "
            f"Allowed: {', '.join(above_names())}. {remedy}."
        )
    if not under.trains:
        raise ConfigError(
            f"{above}-{base}: {base} trains nothing, so there is nothing that {above} could do. Use {base} alone, or "
            f"another base: {', '.join(base_names())}."
        )
    try:
        return combine(f"{above} on top of {base}", over, under)
    except ConfigError as error:
        raise ConfigError(f"{above} and {base} cannot be combined: {error}") from None


def _stands_above(row: Method) -> bool:
    return "sparsity" in row.parts and "objective" not in row.parts


def _unknown(name: str) -> ConfigError:
    """The error for a name that is not known, with the nearest one: as a whole, or half by half."""
    known = [*METHODS, *plugins.offered("methods", METHODS)]
    hint = _near_halves(name)
    if hint is None:
        return unknown_name("method", name, known, "`esacl methods` describes them.")
    return ConfigError(
        f"unknown method {name!r}. Did you mean {hint!r}? Two in one name are one of {', '.join(above_names())}, then "
        f"one of {', '.join(base_names())}, where the two fit. `esacl methods` describes them."
    )


def _near_halves(name: str) -> str | None:
    """The nearest name of two halves; None where the name has none that are near enough."""
    words = name.lower().split("-")
    for place in range(1, len(words)):
        above, base = "-".join(words[:place]), "-".join(words[place:])
        over = get_close_matches(above, above_names(), n=1, cutoff=0.7)
        under = get_close_matches(base, base_names(), n=1, cutoff=0.5)
        if over and under:
            return f"{over[0]}-{under[0]}"
    return None


def _groups(slot: str) -> tuple[str, ...]:
    """Groups of entry points that parts of a slot come from."""
    return ("readouts", "parts") if slot == "readout" else ("parts",)


def _fills(slot: str, name: str) -> bool:
    """Whether a plugin's part is one for that slot; what cannot be imported is none."""
    try:
        found = next(part for group in _groups(slot) if (part := plugins.load(group, name)) is not None)
    except ConfigError:
        return False
    return part_problem(slot, found) is None


def _as_part(slot: str, found: Any, called: str) -> type[Part]:
    problem = part_problem(slot, found)
    if problem is not None:
        raise ConfigError(f"{called}: {problem}")
    return found  # type: ignore[no-any-return]
