"""The lock of a run directory: keeps a second process out, and notices when somebody takes it away."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from esacl.errors import RunError

NAME = ".lock"


class Busy(RunError):
    """A directory that another process works in."""


class RunLock:
    """The file `.lock` of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / NAME
        self._held: tuple[int, int] | None = None  # device and inode, while it is held here

    @contextmanager
    def hold(self, patience: float = 0) -> Iterator[None]:
        """Hold the directory: after so many seconds a second process is refused; a killed one leaves no lock behind.

        Who holds it already may hold it once more.
        """
        if self._held is not None:
            yield
            return
        lock = FileLock(self._path, timeout=patience)
        try:
            lock.acquire()
        except Timeout:
            raise Busy(
                f"another process is working in {str(self._directory)!r}. Wait until it ends, or use another directory."
            ) from None
        self._held = self._found()
        try:
            yield
        finally:
            self._held = None
            lock.release()

    def check(self) -> None:
        """Stop where the lock that is held is not the one that others would find: they may be at work here."""
        if self._held is not None and self._found() != self._held:
            raise RunError(
                f"{str(self._path)!r} was removed or replaced while this process was working in the directory, so "
                f"another may have started there. Nothing more is written. Make sure that only one is at work, then "
                f"continue with `esacl resume`."
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            status = os.lstat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino
