"""Decoded images in one file beside the program: each is decoded once, by whichever run needs it first."""

import os
import zlib
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage

from esacl.errors import ConfigError

FOLDER, MOST = "ESACL_CACHE", 2**35
"""Variable of the environment that says where the files are, and how many bytes they may take together."""

_SUFFIX = ".pixels"
_CHECK = 4  # bytes of the checksum of an image; 0: not there yet


def folder() -> Path:
    """Where decoded images are kept: $ESACL_CACHE, else the user's folder for caches."""
    given = os.environ.get(FOLDER)
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "esacl")


def has_room(count: int, size: int, key: str) -> bool:
    """Whether so many images of that many bytes fit: into half of the free disk, and under the cap."""
    place, wanted = folder(), count * (size + _CHECK)
    if (place / f"{key}{_SUFFIX}").exists():
        return True
    with suppress(OSError):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        return wanted <= min(MOST, disk_usage(place).free // 2)
    return False


class PixelFile:
    """Images of one size by row. What is not there, or not as it was written, is decoded again.

    Several processes may fill it at once: they write the same bytes.
    """

    def __init__(self, key: str, count: int, size: int) -> None:
        self._count, self._size = count, size
        place = folder()
        self.path = place / f"{key}{_SUFFIX}"
        wanted = count * (size + _CHECK)
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_room(place, self.path, wanted)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            os.ftruncate(self._file, wanted)
            os.utime(self.path)
        except OSError as error:
            raise ConfigError(
                "{given} cannot write to {place!r}: {why}.",
                "stream.cache",
                "disk",
                remedy=f"Set {FOLDER} to a folder that can be written to, or use {{stream.cache:none}}.",
                place=str(place),
                why=error.strerror or str(error),
            ) from None
        self._writable = True

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._file)

    def get(self, row: int) -> bytes | None:
        """The bytes of an image, if they are there."""
        with suppress(OSError):
            check = os.pread(self._file, _CHECK, row * _CHECK)
            if check.strip(b"\0"):
                found = os.pread(self._file, self._size, self._place(row))
                return found if _checksum(found) == check else None
        return None

    def put(self, row: int, image: bytes) -> None:
        """Keep the bytes of an image; on a full disk, no more are kept."""
        if self._writable:
            try:
                os.pwrite(self._file, image, self._place(row))
                os.pwrite(self._file, _checksum(image), row * _CHECK)
            except OSError:
                self._writable = False

    def _place(self, row: int) -> int:
        return self._count * _CHECK + row * self._size


def _checksum(image: bytes) -> bytes:
    """Never all zeros."""
    return (zlib.crc32(image) or 1).to_bytes(_CHECK, "little")


def _make_room(place: Path, own: Path, wanted: int) -> None:
    """Remove the files that were used longest ago, until all fit under the cap."""
    others = [path for path in place.glob(f"*{_SUFFIX}") if path != own and path.is_file() and not path.is_symlink()]
    others.sort(key=lambda path: path.stat().st_mtime_ns)
    taken = sum(path.stat().st_size for path in others)
    for path in others:
        if taken + wanted <= MOST:
            break
        taken -= path.stat().st_size
        path.unlink()
