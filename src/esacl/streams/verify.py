"""Checksums of archives, computed once: what was verified is remembered beside the file, by size and time of change."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from esacl.errors import DataError, RunError
from esacl.files import write_atomic

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
    with suppress(OSError, RunError):
        write_atomic(memory, json.dumps({**_recall(path.parent), path.name: _identity(path, md5)}))


def _identity(path: Path, md5: str) -> list[int | str]:
    status = path.stat()
    # the time of the last change of the entry, and its number, are the system's: a record that came with the file fails
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, md5]


def _recall(folder: Path) -> dict[str, list[int | str]]:
    try:
        remembered = json.loads((folder / MEMORY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return remembered if isinstance(remembered, dict) else {}
