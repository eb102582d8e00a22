"""Image files below a folder, found by their content; and what was left out, by reason."""

import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from esacl.streams.formats import HEAD, TAIL, kind, looks_whole
from esacl.streams.images import Progress, in_threads
from esacl.streams.limits import MAX_BYTES, max_bytes

_NAMES = "avif bmp gif heic heif jpeg jpg pgm png ppm tif tiff webp"
SUFFIXES = tuple(f".{name}" for name in _NAMES.split())
"""File names that promise an image, in any case: such a file that holds none is damaged."""

MUCH = 0.1
"""Share of the images from which on a loss is told again at the end."""

OTHER = "not an image"


@dataclass(slots=True)
class LeftOut:
    """Files of a folder that are not learnt from, and why; more may be found while images are read."""

    images: int = 0  # that there are, readable or not
    damaged: dict[str, str] = field(default_factory=dict)  # path → reason
    grey: dict[str, str] = field(default_factory=dict)  # found too late to leave them out: grey images instead
    others: int = 0  # files that are no images, and do not say so

    @property
    def lost(self) -> dict[str, str]:
        """Images that were not read, with the reason."""
        return {**self.damaged, **self.grey}

    @property
    def much(self) -> bool:
        """Whether more than a tenth of the images are lost."""
        return len(self.lost) > MUCH * self.images

    def told(self, where: str) -> str:
        """How many, by reason, with an example of each."""
        by_reason = Counter(_kind_of(reason) for reason in self.lost.values())
        first = {_kind_of(reason): (path, reason) for path, reason in reversed(self.lost.items())}
        reasons = [f"{count} × {first[name][1]}, such as {first[name][0]!r}" for name, count in by_reason.most_common()]
        text = f"{len(self.lost)} of the {self.images} image files in {where!r} could not be read"
        left = len(self.damaged)
        done = [f"{left} were left out"] if left else []
        done += [f"{len(self.grey)} were found while training and became grey images"] if self.grey else []
        others = f" {self.others} other files are no images." if self.others else ""
        return f"{text}: {'; '.join(reasons)}. {' and '.join(done)}.{others}"


def _kind_of(reason: str) -> str:
    """A reason without what is particular to a file."""
    return reason.partition(" (")[0].partition(" <")[0]


@dataclass(frozen=True, slots=True)
class File:
    """An image file of a class."""

    path: str
    label: int
    size: int  # bytes
    changed: int  # time of the last change, in nanoseconds
    whole: bool  # whether it ends as its format does


def image_files(folder: Path) -> list[Path]:
    """Every image file below a folder, sorted by name; damaged ones as well."""
    left_out = LeftOut()
    files = listed([folder], left_out)
    return sorted([*(Path(file.path) for file in files), *map(Path, left_out.damaged)], key=Path.as_posix)


def listed(folders: Sequence[Path], left_out: LeftOut, progress: Progress | None = None) -> list[File]:
    """The image files below each folder, labelled by its number, sorted by class and name; no image is decoded."""
    every = [(path, label) for label, folder in enumerate(folders) for path in _below(folder)]
    found: list[File | str] = [OTHER] * len(every)

    def look(rows: Sequence[int]) -> None:
        for row in rows:
            found[row] = _looked_at(*every[row])

    in_threads(look, range(len(every)), progress)
    files = [each for each in found if isinstance(each, File)]
    damaged = {path: each for (path, _), each in zip(every, found) if isinstance(each, str) and each != OTHER}
    left_out.damaged.update(damaged)
    left_out.images += len(files) + len(damaged)
    left_out.others += len(every) - len(files) - len(damaged)
    return files


def _below(folder: Path) -> list[str]:
    """Files below a folder, sorted by name as it is written with /; hidden ones are passed over."""
    places = os.walk(folder)
    found = [os.path.join(place, name) for place, _, names in places for name in names if not name.startswith(".")]
    return sorted(found, key=lambda path: path.replace(os.sep, "/"))


def _looked_at(path: str, label: int) -> File | str:
    """An image file, or why it is none."""
    promised = path.lower().endswith(SUFFIXES)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # a pipe would never answer
            return OTHER
        with open(path, "rb") as file:
            head = file.read(HEAD)
            if kind(head) is None:
                return "not a readable image" if promised else OTHER
            if status.st_size > max_bytes():
                return f"more than {max_bytes():,} bytes: raise {MAX_BYTES} if you trust it"
            file.seek(max(0, status.st_size - TAIL))
            whole = looks_whole(head, file.read(TAIL), status.st_size)
            return File(path, label, status.st_size, status.st_mtime_ns, whole)
    except OSError as error:
        return (error.strerror or str(error)) if promised else OTHER
