"""Room for a network: one that does not fit into the memory is refused with the size that it asks for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from esacl.errors import ConfigError, out_of_memory


@contextmanager
def building(what: str, *modules: nn.Module, where: str = "cpu") -> Iterator[None]:
    """Build these modules, or say in one line how much memory they need."""
    size = sum(value.numel() * value.element_size() for module in modules for value in module.state_dict().values())
    if where == "cpu" and size > physical_memory():
        raise _too_large(what, size, where)
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise _too_large(what, size, where) from None


def physical_memory() -> float:
    """Bytes of memory that the machine has; infinite where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _too_large(what: str, size: int, where: str) -> ConfigError:
    return ConfigError(
        f"{what} needs {size / 2**30:,.1f} GiB for its weights alone, more than there is on the {where}. Use a "
        f"smaller width, smaller images or another backbone."
    )
