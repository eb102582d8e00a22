"""Code of the user's own by name: package.module:OBJECT, or path/to/file.py:OBJECT."""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from esacl.errors import ConfigError


def names_code(name: str) -> bool:
    """Whether a name is that of code."""
    return ":" in name


def is_own(name: str) -> bool:
    """Whether a recorded name stands for something of the user's own: code, or an object that was given in Python."""
    return names_code(name) or name.startswith("<")


def form(noun: str) -> str:
    """How code is named."""
    return f"package.module:{noun}, or path/to/file.py:{noun}"


def imported(kind: str, name: str, noun: str = "OBJECT") -> Any:
    """What code calls that name, as the `kind` of thing that it is wanted for.

    Only for names that the user gave: importing a module runs it.
    """
    where, _, wanted = name.rpartition(":")
    if not where or not wanted.isidentifier():
        raise ConfigError(f"{kind} {name!r} does not name {_article(noun)}. Write {form(noun)}.")
    with reachable(name):
        try:
            found = getattr(_from_file(where) if where.endswith(".py") else import_module(where), wanted, None)
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"{kind} {name!r} cannot be imported from {str(Path.cwd())!r}: {message(error)}. Mend it, or write "
                f"{form(noun)}."
            ) from None
    if found is None:
        raise ConfigError(f"{kind} {name!r}: {where!r} has no {noun.lower()} {wanted!r}. Check the name.")
    return found


def check_allowed(kind: str, name: str, allowed: Collection[str]) -> None:
    """Refuse code that only a file names: the file may come from anyone."""
    if is_own(name) and name not in allowed:
        memory = name.startswith("<")
        what = "an object in the memory of Python" if memory else "code of somebody's own"
        again = f"In Python, give it again: {kind}=..." if memory else "If you trust it, name it again: {code:{name}}."
        wrong = "the {kind} is {what}, {name!r}, and no file is allowed to start code."
        raise ConfigError(wrong, remedy=again, kind=kind, what=what, name=name)


def message(error: BaseException) -> str:
    """An error of someone else's code in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('. ')}" if lines else type(error).__name__


def _article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun.lower()}"


def _from_file(path: str) -> ModuleType:
    """The module in a file, under a name that no other has."""
    place = Path(path).resolve()
    alias = f"_esacl_own_{sha256(str(place).encode()).hexdigest()[:16]}"
    spec = spec_from_file_location(alias, place)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[alias] = module  # whatever asks for the module of its classes finds it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[alias]
        raise
    return module


@contextmanager
def reachable(name: str) -> Iterator[None]:
    """Imports work from the current folder, and beside a file that is named."""
    where = name.rpartition(":")[0]
    folder = Path(where).parent if where.endswith(".py") else Path()
    before = list(sys.path)
    sys.path[:0] = list(dict.fromkeys([str(folder.resolve()), str(Path.cwd())]))
    try:
        yield
    finally:
        sys.path[:] = before
