"""Checksums of archives, computed once: what was verified is remembered beside the file, by size and time of change."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from esacl.errors import DataError

MEMORY = ".esacl-verified.json"
"""File in the data folder that remembers which archives were verified."""


def digest(path: Path, algorithm: str = "md5") -> str:
    """The checksum of a file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}.") from None


def has_md5(path: Path, md5: str) -> bool:
    """Whether the file has this checksum; hashed only if it changed since it was last found to have it."""
    if _recall(path.parent).get(path.name) == _identity(path, md5):
        return True
    if digest(path) != md5:
        return False
    remember(path, md5)
    return True


def remember(path: Path, md5: str) -> None:
    """Note that the file has this checksum. Where the folder is read-only, it is hashed anew each time."""
    memory = path.parent / MEMORY
    fresh = memory.with_name(f"{MEMORY}.{os.getpid()}")
    with suppress(OSError):
        fresh.write_text(json.dumps({**_recall(path.parent), path.name: _identity(path, md5)}), encoding="utf-8")
        fresh.replace(memory)


def _identity(path: Path, md5: str) -> list[int | str]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, md5]


def _recall(folder: Path) -> dict[str, list[int | str]]:
    try:
        remembered = json.loads((folder / MEMORY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return remembered if isinstance(remembered, dict) else {}
