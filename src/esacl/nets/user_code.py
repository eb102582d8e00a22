"""Networks of the user's own by name: package.module:function, or path/to/file.py:function."""

from typing import Any

from torch import nn

from esacl.code import form, imported, message, reachable
from esacl.errors import ConfigError
from esacl.rng import randomness

FORM = form("function")


def load(name: str, seed: int) -> nn.Module:
    """What the function of that name returns: its random numbers depend on the seed, and nobody else's are touched.

    Only for names that the user gave: importing a module runs it.
    """
    with randomness(seed, "own network"), reachable(name):
        found = imported("backbone", name, "function")
        if not callable(found):
            where, _, function = name.rpartition(":")
            raise ConfigError(f"backbone {name!r}: {where!r} has no function {function!r}. Check the name.")
        return made(name, found)


def made(name: str, found: Any) -> nn.Module:
    """The module that a function returns."""
    try:
        module = found if isinstance(found, nn.Module) else found()
    except Exception as error:
        raise ConfigError(
            f"backbone {name!r} fails when it is called without arguments: {message(error)}. It must return a module."
        ) from None
    if not isinstance(module, nn.Module):
        raise ConfigError(
            f"backbone {name!r} returns {type(module).__name__}, not a torch.nn.Module. Return the module, untrained "
            f"or with its weights."
        )
    return module
