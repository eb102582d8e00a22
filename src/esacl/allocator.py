"""Memory that a step frees is kept for the next one, instead of going back to the system at every step.

A step of a convolutional network allocates and frees the same large blocks again and again. By default glibc maps
each of them anew, and the system has to hand out and clear every page of it: thousands of page faults a step.
"""

import ctypes
import os
import platform
from collections.abc import Mapping
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and numbers of glibc's malloc.h
KEPT = 1 << 30  # bytes of free memory at the end of the heap that are not given back
MAPPED = 32 << 20  # bytes from which on a block is mapped on its own: the largest that glibc allows


def keep_freed_memory(environment: Mapping[str, str] | None = None) -> bool:
    """Let the C library of this process keep what is freed; whether it was asked to.

    Only glibc is asked, and only if the environment does not have settings of its own (MALLOC_..., GLIBC_TUNABLES) or
    another allocator (LD_PRELOAD).
    """
    given = os.environ if environment is None else environment
    if any(name.startswith("MALLOC_") or name in ("GLIBC_TUNABLES", "LD_PRELOAD") for name in given):
        return False
    return platform.libc_ver()[0] == "glibc" and _ask()


@cache
def _ask() -> bool:
    """Tell malloc, once for a process."""
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_THRESHOLD, MAPPED)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
