"""One way to read files from a folder, a tar or a zip: in memory, and never from outside the archive.

Absolute names, `..`, links and devices are refused. Whatever is damaged is one `DataError` line.
"""

import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Self

from esacl.errors import DataError
from esacl.streams.limits import MAX_BYTES, max_bytes

MOST_HEADER = 2**20
"""Bytes of a tar's own notes (long names and the like) above which it is taken for an attack."""

_GZIP = b"\x1f\x8b"
_CODECS = (struct.error, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
_BROKEN = (EOFError, OSError, ValueError, RuntimeError, *_CODECS)


class Archive(ABC):
    """The files below the folder `top` of an archive, named relative to it with `/`."""

    def __init__(self, path: Path, top: str) -> None:
        self.path = path
        self.top = top

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027  (a folder holds nothing)
        """Release the file, where one is held."""

    @abstractmethod
    def names(self) -> list[str]:
        """Every file, sorted: the same list for a folder and for the archive it came from."""

    @abstractmethod
    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Name and contents of each of these files, in the order that reads the archive once."""

    def read_one(self, name: str) -> bytes:
        """The contents of one file."""
        return dict(self.read([name]))[name]

    def _inside(self, member: str) -> str | None:
        """The name below `top`, nothing for a member beside it; a name that leaves the archive is refused."""
        posix, windows = PurePosixPath(member), PureWindowsPath(member)
        if posix.is_absolute() or windows.drive or windows.root or ".." in windows.parts:
            raise self._refusal(member, "its name points outside the archive")
        if posix.parts[:1] != (self.top,) or len(posix.parts) == 1:
            return None
        return str(PurePosixPath(*posix.parts[1:]))

    def _refusal(self, member: str, why: str) -> DataError:
        return DataError(f"{str(self.path)!r} is not safe to read: member {member!r} was refused, {why}.")

    def _absent(self, names: Collection[str]) -> DataError:
        first, others = sorted(names)[0], len(names) - 1
        more = f" and {others} more" if others else ""
        return DataError(f"{str(self.path)!r} is incomplete: it has no {self.top}/{first}{more}.")


class FolderArchive(Archive):
    """An unpacked archive."""

    def names(self) -> list[str]:
        with _reading(self.path):
            return sorted(self._walk(self.path, ""))

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        for name in names:
            file = self.path / name
            if not os.path.lexists(file):
                raise self._absent([name])
            with _reading(file):
                self._admit(name, os.lstat(file))
                data = file.read_bytes()
            yield name, data

    def _walk(self, folder: Path, prefix: str) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(folder / entry.name, f"{prefix}{entry.name}/")
                else:
                    self._admit(prefix + entry.name, entry.stat(follow_symlinks=False))
                    yield prefix + entry.name

    def _admit(self, name: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._refusal(name, "it is a link or a device, not a file")
        if status.st_size > max_bytes():
            raise self._refusal(name, f"it has {status.st_size} bytes, more than {MAX_BYTES} allows")


class TarArchive(Archive):
    """A tar, gzipped or not, read as one forward pass to its end (where gzip keeps its checksum)."""

    def names(self) -> list[str]:
        return sorted(name for name, _, _ in self._members())

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        wanted = set(names)
        for name, tar, member in self._members():
            if name in wanted:
                with _reading(self.path):
                    file = tar.extractfile(member)
                    data = file.read() if file else b""
                wanted.discard(name)
                yield name, data
        if wanted:
            raise self._absent(wanted)

    def _members(self) -> Iterator[tuple[str, tarfile.TarFile, tarfile.TarInfo]]:
        with _reading(self.path), self.path.open("rb") as packed:
            gzipped = packed.read(2) == _GZIP
            packed.seek(0)
            plain = _Capped(gzip.GzipFile(fileobj=packed) if gzipped else packed, self.path)
            with tarfile.open(fileobj=plain, mode="r|", bufsize=1 << 20, tarinfo=_Header) as tar:
                for member in tar:
                    tar.members = []  # type: ignore[attr-defined]  # each is looked at once
                    if not 0 <= member.size <= max_bytes():  # before anything skips or reads so much
                        raise self._refusal(member.name, f"it says it has {member.size} bytes")
                    name = self._inside(member.name)
                    if member.isdir():
                        continue
                    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                        raise self._refusal(member.name, "it is a link or a device, not a file")
                    if name is not None:
                        yield name, tar, member
            while plain.read(1 << 20):
                pass


class ZipArchive(Archive):
    """A zip; it may be read by several threads."""

    def __init__(self, path: Path, top: str) -> None:
        super().__init__(path, top)
        with _reading(path):
            self._zip = zipfile.ZipFile(path)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = self._inside(info.filename)
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise self._refusal(info.filename, "it is a link or a device, not a file")
            if name is not None and not info.is_dir():
                self._members[name] = info
        unpacked = sum(info.file_size for info in self._members.values())
        if unpacked > max_bytes():
            raise _too_large(path)

    def close(self) -> None:
        self._zip.close()

    def names(self) -> list[str]:
        return sorted(self._members)

    def read(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        for name in names:
            if name not in self._members:
                raise self._absent([name])
            with _reading(self.path):
                data = self._zip.read(self._members[name])
            yield name, data


class _Header(tarfile.TarInfo):
    """A header whose size is looked at before what follows it is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        plain = found.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
        if not 0 <= found.size <= (max_bytes() if plain else MOST_HEADER):
            raise tarfile.ReadError(f"a member says it has {found.size} bytes")
        return found


class _Capped(io.RawIOBase):
    """A file that may be read up to the cap, so that a small archive cannot unpack without end."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, path: Path) -> None:
        self._file = file
        self._path = path
        self._left = max_bytes()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._path)
        return data


def open_archive(path: Path, top: str) -> Archive:
    """The folder, zip or tar at `path`, whose files are below the folder `top`."""
    if path.is_dir():
        return FolderArchive(path, top)
    return ZipArchive(path, top) if path.suffix == ".zip" else TarArchive(path, top)


def _too_large(path: Path) -> DataError:
    return DataError(
        f"{str(path)!r} is not safe to read: it unpacks to more than {max_bytes():,} bytes. If you trust "
        f"it, raise the cap: set {MAX_BYTES} in the environment."
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Any failure to read `path`, as one line."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except _BROKEN as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"{str(path)!r} is damaged or incomplete: {reason}.") from None
