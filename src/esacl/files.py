"""Writing files so that a crash leaves the old one or the new one, never half of either, and never through a link."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from esacl.errors import ConfigError, RunError

_RELATIVE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")  # elsewhere links are only looked for
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?:[0-9]+|[0-9a-f]{16})\.tmp")
"""Names of half-written files; those of earlier versions end in the number of a process."""


def user_path(text: str | Path) -> Path:
    """A path that somebody wrote, with `~` as a home; one that no system, or no settings file, can hold is refused."""
    try:
        str(text).encode()
        if "\0" in str(text):
            raise ValueError("it has a NUL character")
        return Path(text).expanduser()
    except UnicodeEncodeError:
        why = "its name is not UTF-8, and settings are written as UTF-8"
    except (RuntimeError, ValueError) as error:
        why = str(error).rstrip(".").lower()
    raise ConfigError(f"the path {str(text)!r} cannot be used: {why}. Write another path, or rename the folder.")


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
    Folder(path.parent).write(path.name, data)


class Folder:
    """A folder whose files are opened relative to it, and never through a link.

    One that is `inside` another is its entry, and no link either. `guard` is called before anything is changed.
    """

    def __init__(self, path: Path, inside: "Folder | None" = None, guard: Callable[[], None] | None = None) -> None:
        self.path = path
        self._inside = inside
        self._guard = guard

    def write(self, name: str, data: bytes | str) -> None:
        """Replace a file in one step; a link of that name is replaced, not followed."""
        with self._changing() as folder:
            temporary = f".{name}.{token_hex(8)}.tmp"
            try:
                new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(self._open(temporary, new, folder), "wb") as file:
                    file.write(data.encode() if isinstance(data, str) else data)
                    file.flush()
                    os.fsync(file.fileno())
                there = self._entry(name, folder)
                os.replace(self._entry(temporary, folder), there, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(self._entry(temporary, folder), dir_fd=folder)
            if folder is not None:  # elsewhere a folder cannot be opened
                os.fsync(folder)

    def append(self, name: str, text: str) -> None:
        """Add to the end of a file, through to the disk."""
        with self._changing() as folder, os.fdopen(self._open(name, _APPEND, folder), "ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def truncate(self, name: str, size: int) -> None:
        """Cut a file to at most this many bytes; one that is missing is made."""
        with self._changing() as folder, os.fdopen(self._open(name, _APPEND, folder), "ab") as file:
            file.truncate(min(size, file.seek(0, os.SEEK_END)))

    def remove(self, name: str) -> None:
        """Delete a file, or a link itself; nothing where there is none."""
        with suppress(FileNotFoundError), self._changing() as folder:
            os.unlink(self._entry(name, folder), dir_fd=folder)

    def make(self) -> None:
        """Make the folder where it is missing, with those above it unless it is inside another."""
        if self._inside is None:
            self.path.mkdir(parents=True, exist_ok=True)
            return
        with suppress(FileExistsError), self._inside._changing() as above:
            os.mkdir(self._inside._entry(self.path.name, above), dir_fd=above)

    def remove_if_empty(self) -> None:
        """Delete the folder where nothing is left in it."""
        with suppress(OSError):
            self.path.rmdir()

    def names(self) -> list[str]:
        """What is in it, sorted; nothing where there is no such folder."""
        try:
            with self._opened() as folder:
                return sorted(os.listdir(self.path if folder is None else folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def file(self, name: str) -> Path:
        """Where a file is, to be read by others; a link is refused."""
        if self._inside is not None:
            self._inside.refuse_link(self.path.name)
        self.refuse_link(name)
        return self.path / name

    def refuse_link(self, name: str) -> None:
        """Refuse an entry that leads elsewhere, also on a system where links are followed, or that never ends."""
        path = self.path / name
        if path.is_symlink() or (hasattr(path, "is_junction") and path.is_junction()):
            raise RunError(
                f"{str(path)!r} is a link, and runs neither read nor write through links: it may lead anywhere. Put "
                f"what it leads to in its place, or delete it."
            )
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise RunError(
                f"{str(path)!r} is a pipe or a device, and a run consists of files and folders. Delete it, or use "
                f"another directory."
            )

    @contextmanager
    def _changing(self) -> Iterator[int | None]:
        """The folder, open for a change, if that is allowed still."""
        if self._guard is not None:
            self._guard()
        with self._opened() as folder:
            yield folder

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """A descriptor of the folder; None where the system has no use for one."""
        if self._inside is not None:
            self._inside.refuse_link(self.path.name)
        if not _RELATIVE:
            yield None
            return
        if self._inside is None:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        else:
            with self._inside._opened() as above:
                folder = os.open(self.path.name, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW, dir_fd=above)
        try:
            yield folder
        finally:
            os.close(folder)

    def _open(self, name: str, flags: int, folder: int | None) -> int:
        """A descriptor of a plain file."""
        self.refuse_link(name)
        return os.open(self._entry(name, folder), flags | _NO_FOLLOW | _BINARY, 0o666, dir_fd=folder)

    def _entry(self, name: str, folder: int | None) -> str:
        """What the system calls a file: its name in an open folder, or its whole path."""
        return name if folder is not None else str(self.path / name)


_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND


def remove_leftovers(folder: Folder, own: Callable[[str], bool]) -> None:
    """Delete what a killed writer left of files that are its own; temporary files of others stay."""
    for name in folder.names():
        found = _TEMPORARY.fullmatch(name)
        if found is not None and own(found["name"]) and stat.S_ISREG(os.lstat(folder.path / name).st_mode):
            folder.remove(name)
