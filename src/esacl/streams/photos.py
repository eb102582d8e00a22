"""Image files as examples: all decoded at once where they fit into memory, else a batch at a time."""

import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from torch import Tensor

from esacl.errors import ConfigError, DataError
from esacl.streams.base import Examples
from esacl.streams.images import Progress, decode_resized, in_threads
from esacl.streams.limits import MAX_BYTES, max_bytes
from esacl.streams.listing import File, LeftOut
from esacl.streams.pixels import PixelFile, has_room
from esacl.streams.resize import Rule
from esacl.streams.rows import OnDemand

Cache = Literal["ram", "disk", "none"]
BUDGET = 2**30
"""Bytes up to which decoded images are held in memory, unless something else is asked for."""

_GREY = 128


class Photos(OnDemand):
    """Images of files, decoded when they are asked for; kept in a file on the disk where there is one."""

    def __init__(
        self, files: Sequence[File], size: tuple[int, int], rule: Rule, left_out: LeftOut, key: str | None = None
    ) -> None:
        self.shape = torch.Size([len(files), 3, *size])
        self._files, self._size, self._rule, self._left_out = files, size, rule, left_out
        self._store = None if key is None else PixelFile(key, len(files), 3 * size[0] * size[1])

    def read(self, rows: Tensor) -> Tensor:
        """Decoded by threads."""
        pixels = np.empty((len(rows), *self.shape[1:]), np.uint8)

        def fill(places: Sequence[int]) -> None:
            for place in places:
                pixels[place] = self._one(int(rows[place]))

        in_threads(fill, range(len(rows)))
        return torch.from_numpy(pixels)

    def identity(self, rows: Tensor) -> str:
        """Names and sizes of the files, and how they are resized; not where they lie."""
        own = [(Path(self._files[row].path).parts[-2:], self._files[row].size) for row in rows.tolist()]
        return sha256(repr((own, self._size, self._rule)).encode()).hexdigest()

    def _one(self, row: int) -> NDArray[np.uint8]:
        """An image as [3, H, W]; grey if it turns out that it cannot be read."""
        kept = None if self._store is None else self._store.get(row)
        if kept is not None:
            return np.frombuffer(kept, np.uint8).reshape(self.shape[1:])
        path = self._files[row].path
        try:
            pixels = np.ascontiguousarray(_decoded(path, self._size, self._rule))
        except (DataError, OSError) as error:
            self._note(path, str(error))
            return np.full(self.shape[1:], _GREY, np.uint8)
        if self._store is not None:
            self._store.put(row, pixels.tobytes())
        return pixels

    def _note(self, path: str, reason: str) -> None:
        if not self._left_out.grey:
            warnings.warn(f"{path!r} could not be decoded ({reason}) and became a grey image.", stacklevel=2)
        self._left_out.grey[path] = reason


def examples_of(
    files: Sequence[File],
    left_out: LeftOut,
    size: tuple[int, int],
    rule: Rule,
    cache: Cache | None,
    progress: Progress | None = None,
) -> Examples:
    """These files as examples; those that cannot be read are left out as far as that shows."""
    bytes_each = 3 * size[0] * size[1]
    if (cache or ("ram" if len(files) * bytes_each <= BUDGET else "disk")) == "ram":
        examples, broken = decoded([(Path(file.path), file.label) for file in files], size, rule, progress)
        left_out.damaged.update({str(path): reason for path, reason in broken.items()})
        return examples
    files = _checked(files, left_out, progress)
    key = None if cache == "none" else key_of(files, size, rule)
    room = key is not None and has_room(len(files), bytes_each, key)
    if cache == "disk" and not room:
        raise ConfigError(
            "{given} needs {wanted:.1f} GiB, more than is free or allowed.",
            "stream.cache",
            cache,
            remedy="Use {stream.cache:none}, or a smaller {stream.image_size}.",
            wanted=len(files) * bytes_each / 2**30,
        )
    labels = torch.tensor([file.label for file in files], dtype=torch.int64)
    return Examples(Photos(files, size, rule, left_out, key if room else None), labels)


def key_of(files: Sequence[File], size: tuple[int, int], rule: Rule) -> str:
    """What the decoded images of some files depend on."""
    digest = sha256(repr((PIL.__version__, size, rule)).encode())
    for file in files:
        digest.update(repr((file.path, file.size, file.changed)).encode())
    return digest.hexdigest()[:32]


def _checked(files: Sequence[File], left_out: LeftOut, progress: Progress | None) -> list[File]:
    """Without files that seem cut off and cannot be decoded."""
    doubtful = [file for file in files if not file.whole]
    broken: set[str] = set()

    def check(some: Sequence[File]) -> None:
        for file in some:
            try:
                _decoded(file.path, (8, 8), "squash")
            except (DataError, OSError) as error:
                broken.add(file.path)
                left_out.damaged[file.path] = str(error)

    in_threads(check, doubtful, progress)
    return [file for file in files if file.path not in broken]


def decoded(
    files: Sequence[tuple[Path, int]], size: tuple[int, int], rule: Rule, progress: Progress | None = None
) -> tuple[Examples, dict[Path, str]]:
    """The readable ones of these files with their labels, in memory, and why each of the others is not."""
    pixels = _room(len(files), *size)
    broken: dict[int, str] = {}

    def decode(rows: Sequence[int]) -> None:
        for row in rows:
            try:
                pixels[row] = _decoded(files[row][0], size, rule)
            except (DataError, OSError) as error:
                broken[row] = str(error)

    in_threads(decode, range(len(files)), progress)
    labels = torch.tensor([label for _, label in files], dtype=torch.int64)
    examples = Examples(torch.from_numpy(pixels), labels)
    if broken:
        examples = examples.take(
            torch.tensor([row for row in range(len(files)) if row not in broken], dtype=torch.int64)
        )
    return examples, {files[row][0]: broken[row] for row in sorted(broken)}


def _decoded(path: Path | str, size: tuple[int, int], rule: Rule) -> NDArray[np.uint8]:
    """The image in a file, as [3, H, W]."""
    file = Path(path)
    if file.stat().st_size > max_bytes():
        raise DataError(f"more than {max_bytes():,} bytes: raise {MAX_BYTES} if you trust it")
    return decode_resized(file.read_bytes(), size, rule).transpose(2, 0, 1)


def _room(count: int, height: int, width: int) -> NDArray[np.uint8]:
    """Memory for that many images."""
    try:
        return np.empty((count, 3, height, width), np.uint8)
    except MemoryError:
        size = count * 3 * height * width / 2**30
        raise DataError(
            f"{count:,} images of {height} × {width} need {size:,.1f} GiB of memory, more than there is. Use a smaller "
            f"image size or fewer images."
        ) from None
