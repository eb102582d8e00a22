"""Installed plugins: what other packages offer by the entry points `esacl.methods`, `esacl.streams` and so on."""

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from esacl.code import message
from esacl.errors import ConfigError

GROUPS = {"methods": "method", "streams": "stream", "backbones": "backbone", "readouts": "readout", "parts": "part"}
"""Groups of entry points, and what each of them offers."""


def offered(group: str, taken: Collection[str] = ()) -> list[str]:
    """Names that plugins offer, but for those that are taken by this library."""
    return sorted({entry.name for entry in _entries(group)} - set(taken))


def load(group: str, name: str) -> Any | None:
    """What a plugin offers by that name; None where no plugin does, an error that names the plugin where it fails."""
    found = [entry for entry in _entries(group) if entry.name == name]
    if not found:
        return None
    kind = GROUPS[group]
    if len({entry.value for entry in found}) > 1:
        owners = " and ".join(sorted({owner(entry) for entry in found}))
        raise ConfigError(f"the plugins {owners} both offer the {kind} {name!r}. Uninstall one of them.")
    entry = found[0]
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"the plugin {owner(entry)} offers the {kind} {name!r}, but {entry.value!r} cannot be imported: "
            f"{message(error)}. Update or uninstall the plugin."
        ) from None


def refused(group: str, name: str, problem: str) -> ConfigError:
    """The error for what a plugin offers but nobody can use."""
    owners = " and ".join(sorted({owner(entry) for entry in _entries(group) if entry.name == name}))
    return ConfigError(
        f"the plugin {owners} offers the {GROUPS[group]} {name!r}, but {problem} Update or uninstall the plugin."
    )


def clashes(group: str, taken: Collection[str]) -> list[str]:
    """A line for every name that a plugin offers although this library has it."""
    return [
        f"the plugin {owner(entry)} offers the {GROUPS[group]} {entry.name!r}, a name that esacl has itself: it is "
        f"left out. Rename its entry point."
        for entry in _entries(group)
        if entry.name in taken
    ]


def owner(entry: EntryPoint) -> str:
    """The package that an entry point belongs to."""
    return repr(entry.dist.name if entry.dist is not None else entry.value.partition(":")[0])


def _entries(group: str) -> list[EntryPoint]:
    return list(entry_points(group=f"esacl.{group}"))
