"""Errors a user can cause: each says what is wrong, the value given, what is allowed, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class EsaclError(Exception):
    """Base of every error that is shown to people as one message, without a traceback."""


class ConfigError(EsaclError, ValueError):
    """A setting, a name or a composition that cannot be run."""


class DataError(EsaclError):
    """A data set that is missing, incomplete, damaged or unsafe."""


class InputError(EsaclError, ValueError):
    """Arrays or labels that a classifier cannot learn from or answer for."""


class CheckpointError(EsaclError):
    """A checkpoint that is missing, damaged or belongs to another run."""


class RunError(EsaclError):
    """A run directory that cannot be used as asked."""


class Diverged(RunError):
    """Training whose loss is no number any more."""


def unknown_name(kind: str, given: str, allowed: Iterable[str], remedy: str = "") -> ConfigError:
    """The error for a name that is not known, with the nearest one that is.

    >>> print(unknown_name("method", "derpp", ["er", "der++"]))
    unknown method 'derpp'. Did you mean 'der++'? Allowed: der++, er.
    """
    names = sorted(allowed)
    lowered = {name.lower(): name for name in names}
    near = get_close_matches(given.lower(), lowered, n=1, cutoff=0.5)
    hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
    tail = f" {remedy}" if remedy else ""
    return ConfigError(f"unknown {kind} {given!r}.{hint} Allowed: {', '.join(names) or 'none'}.{tail}")
