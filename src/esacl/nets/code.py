"""Networks of the user's own by name: package.module:function, or path/to/file.py:function."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from esacl.errors import ConfigError
from esacl.rng import derive

FORM = "package.module:function, or path/to/file.py:function"


def names_code(name: str) -> bool:
    """Whether a backbone's name is that of code."""
    return ":" in name


def load(name: str, seed: int) -> nn.Module:
    """What the function of that name returns: its random numbers depend on the seed, and nobody else's are touched.

    Only for names that the user gave: importing a module runs it.
    """
    where, _, function = name.rpartition(":")
    if not where or not function.isidentifier():
        raise ConfigError(f"backbone {name!r} does not name a function. Write {FORM}.")
    with randomness(seed, "own network"), _reachable(Path(where).parent if where.endswith(".py") else Path()):
        try:
            found = getattr(_from_file(where) if where.endswith(".py") else import_module(where), function, None)
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"backbone {name!r} cannot be imported from {str(Path.cwd())!r}: {told(error)}. Mend it, or write "
                f"{FORM}."
            ) from None
        if not callable(found):
            raise ConfigError(f"backbone {name!r}: {where!r} has no function {function!r}. Check the name.")
        return made(name, found)


def made(name: str, found: Any) -> nn.Module:
    """The module that a function returns."""
    try:
        module = found if isinstance(found, nn.Module) else found()
    except Exception as error:
        raise ConfigError(
            f"backbone {name!r} fails when it is called without arguments: {told(error)}. It must return a module."
        ) from None
    if not isinstance(module, nn.Module):
        raise ConfigError(
            f"backbone {name!r} returns {type(module).__name__}, not a torch.nn.Module. Return the module, untrained "
            f"or with its weights."
        )
    return module


def told(error: BaseException) -> str:
    """An error of someone else's code in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('. ')}" if lines else type(error).__name__


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
def _reachable(folder: Path) -> Iterator[None]:
    """Imports work from the current folder, and beside a file that is named."""
    before = list(sys.path)
    sys.path[:0] = list(dict.fromkeys([str(folder.resolve()), str(Path.cwd())]))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def randomness(seed: int, name: str) -> Iterator[None]:
    """Torch's global generator, which layers draw from, as the seed and a name have it; afterwards as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive(seed, name))
        yield
