"""An audit hook that notices, and prevents, every change outside a folder, every process and every connection."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CHANGES = {
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "os.setxattr": (0,),
    "shutil.rmtree": (0,),
    "shutil.move": (0, 1),
}
"""Events that change files, and which of their arguments are paths."""

FOLDERS = {"os.remove": (1,), "os.rmdir": (1,), "os.mkdir": (2,), "os.rename": (2, 3), "os.symlink": (2,)}
"""Which arguments are descriptors of the folders that those paths are relative to."""

STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "os.spawn")
TALKS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "urllib.Request")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
HARMLESS = ("/dev/null", "/dev/full", "/dev/tty")


class Stopped(BaseException):
    """The action has come as far as it should in a test: it would train on, start processes or connect."""


def _place(name: str) -> str | None:
    """The path that a word names; None where no path can be that word."""
    try:
        return os.path.realpath(os.path.expanduser(name))
    except (OSError, ValueError):
        return None


class Watch:
    """What happens from `start` on; `report` is told of every offence before it is prevented."""

    def __init__(self, own: Path, report: Callable[[str], None], starts: bool, fail: tuple[int, int] | None) -> None:
        self._own = os.path.realpath(own)
        self._report = report
        self._starts = starts
        self._errno, self._left = fail or (0, -1)
        self._busy = False

    def start(self, named: Sequence[str] = ()) -> None:
        """Watch this process to its end: hooks cannot be taken away. Who writes in a named place stops."""
        self._named = set(map(_place, named)) - {None}
        usual = os.open

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if flags & WRITING and dir_fd is not None:
                self._change("open", self._absolute(path, dir_fd))
            return usual(path, flags, mode, dir_fd=dir_fd)

        os.open = opened
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._busy:
            return
        self._busy = True  # looking at a path must not be looked at
        try:
            self._look(event, arguments)
        finally:
            self._busy = False

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            relative = mode is None and not isinstance(path, int) and not os.path.isabs(os.fsdecode(path))
            if isinstance(flags, int) and flags & WRITING and not relative and not isinstance(path, int):
                self._change(event, self._absolute(path))
        elif event in CHANGES:
            folders = FOLDERS.get(event, ())
            for place, number in enumerate(CHANGES[event]):
                folder = arguments[folders[place]] if place < len(folders) else -1
                if not isinstance(arguments[number], int):
                    self._change(event, self._absolute(arguments[number], folder))
        elif event in STARTS or event in TALKS:
            if self._starts:
                raise Stopped(event)
            self._report(f"{event} {str(arguments)[:200]}")
            raise PermissionError(1, "no processes and no connections in this test")

    def _absolute(self, path: Any, folder: int | None = -1) -> str:
        above = os.getcwd() if folder in (-1, None) else os.readlink(f"/proc/self/fd/{folder}")
        whole = os.path.join(above, os.fsdecode(path))
        return os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))

    def _change(self, event: str, path: str) -> None:
        """A change of a file: inside, or an offence; from the given number on the system refuses it."""
        if path in HARMLESS or path.startswith("/proc/"):
            return
        if not (path == self._own or path.startswith(self._own + os.sep)):
            if {path, os.path.dirname(path)} & self._named:
                raise Stopped(f"it was told to write to {path}")
            self._report(f"{event} {path}")
            raise PermissionError(1, "outside of the case", path)
        if self._left == 0:
            raise OSError(self._errno, os.strerror(self._errno), path)
        self._left -= 1
