"""Errors a user can cause: each says what is wrong, the value given, what is allowed, and what to do."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Self

from esacl.problem import Naming, Problem, as_path


class EsaclError(Exception):
    """Base of every error that is shown to people as one message, without a traceback.

    An error about a setting holds a `problem`: the setting's path, its value, what is allowed and the remedy. The front
    end that it passes on its way to the user says by `naming` how settings are called there.
    """

    def __init__(
        self, message: str | Problem = "", setting: str | None = None, value: Any = None, **texts: Any
    ) -> None:
        """`message` as it is, or, where anything stands beside it, the template of a `Problem`."""
        super().__init__(message)
        self.problem = message if isinstance(message, Problem) else None
        if isinstance(message, str) and (setting is not None or texts):
            self.problem = Problem(message, setting, value, **texts)
        self.naming: Naming | None = None
        self.prefix = ""

    def __str__(self) -> str:
        text = super().__str__() if self.problem is None else self.problem.message(self.naming or as_path)
        return f"{self.prefix}{text}"

    def within(self, where: str) -> Self:
        """The same error, after the place that it is about: a row, a file, a method."""
        self.prefix = f"{where}: {self.prefix}"
        return self


@contextmanager
def naming(names: Naming) -> Iterator[None]:
    """Errors about settings in the names of a front end; the outermost that is asked decides."""
    try:
        yield
    except EsaclError as error:
        error.naming = names
        raise


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


_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "can't start new thread")
"""What torch and Python say of it, by platform."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that the memory is full: torch has no one class for it.

    >>> out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory")), out_of_memory(ValueError("no"))
    (True, False)
    """
    told = isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY)
    return told or isinstance(error, MemoryError)


def unknown_name(kind: str, given: object, allowed: Iterable[str], remedy: str = "") -> ConfigError:
    """The error for a name that is not known, with the nearest one that is.

    >>> print(unknown_name("method", "derpp", ["er", "der++"]))
    unknown method 'derpp'. Did you mean 'der++'? Allowed: der++, er.
    >>> print(unknown_name("option", -1, ["lr"]))  # of a file, where names may be anything
    unknown option -1. Allowed: lr.
    """
    names = sorted(allowed)
    lowered = {name.lower(): name for name in names}
    near = get_close_matches(str(given).lower(), lowered, n=1, cutoff=0.5)
    hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
    tail = f" {remedy}" if remedy else ""
    return ConfigError(f"unknown {kind} {given!r}.{hint} Allowed: {', '.join(names) or 'none'}.{tail}")
