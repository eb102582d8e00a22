"""Writing files so that a crash leaves the old one or the new one, never half of either."""

import os
from pathlib import Path

from esacl.errors import ConfigError


def check_place(path: Path, kind: str) -> None:
    """Refuse a place where no file can be written, before the work that would be lost there."""
    if path.is_dir():
        problem = "is a directory"
    elif not path.parent.is_dir():
        problem = "is in a folder that does not exist"
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        problem = "is in a folder that you may not write to"
    else:
        return
    raise ConfigError(f"{str(path)!r} {problem}, so no {kind} can be written there. Name a file in another place.")


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace `path` by `data` in one step: temporary file, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files that a killed writer left behind."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)
