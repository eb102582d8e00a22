"""Checksums of archives, computed once: what was verified is remembered beside the file, by size and time of change."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from esacl.errors import DataError, RunError
from esacl.files import write_atomic
from esacl.streams.official import Official

MEMORY = ".esacl-verified.json"
"""File in the data folder that remembers which archives were verified."""

_BLOCK = 1 << 20


def digest(path: Path, algorithm: str = "md5") -> str:
    """The checksum of a file, in hexadecimal."""
    return _digests(path, algorithm)[0]


def is_official(path: Path, data: Official) -> bool:
    """Whether a file has the official checksums; hashed only if it changed since it was last found to have them."""
    if _recall(path.parent).get(path.name) == _identity(path, data):
        return True
    if wrong_digest(path, data) is not None:
        return False
    remember(path, data)
    return True


def wrong_digest(path: Path, data: Official) -> str | None:
    """Which checksum of a file is not the official one, and what it is; None where all are."""
    wanted = {"md5": data.md5, "sha256": data.sha256}
    for algorithm, found in zip(wanted, _digests(path, *wanted)):
        if found != wanted[algorithm]:
            return f"{algorithm} {found} instead of {wanted[algorithm]}"
    return None


def remember(path: Path, data: Official) -> None:
    """Note that the file is the official archive. Where the folder is read-only, it is hashed anew each time."""
    memory = path.parent / MEMORY
    with suppress(OSError, RunError):
        write_atomic(memory, json.dumps({**_recall(path.parent), path.name: _identity(path, data)}))


def _digests(path: Path, *algorithms: str) -> list[str]:
    """Checksums of a file that is read once."""
    hashes = [hashlib.new(name, usedforsecurity=False) for name in algorithms]
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                for each in hashes:
                    each.update(block)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    return [each.hexdigest() for each in hashes]


def _identity(path: Path, data: Official) -> list[int | str]:
    status = path.stat()
    # the time of the last change of the entry, and its number, are the system's: a record that came with the file fails
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, data.sha256]


def _recall(folder: Path) -> dict[str, list[int | str]]:
    try:
        remembered = json.loads((folder / MEMORY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return remembered if isinstance(remembered, dict) else {}
