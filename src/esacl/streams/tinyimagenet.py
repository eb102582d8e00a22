"""Tiny-ImageNet: 200 classes of 64 × 64 images, from the official archive; `val/` is the test split."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np
import torch

from esacl.errors import DataError
from esacl.streams.archive import Archive
from esacl.streams.base import Examples, Source
from esacl.streams.choose import Limit, rows_by_class
from esacl.streams.images import Progress, decode_rgb, in_threads
from esacl.streams.inputs import ImageInputs

_SIDE = 64
_INPUTS = ImageInputs((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821), padding=8, flip=True)


def read(archive: Archive, limit: Limit, progress: Progress | None = None) -> Source:
    """Images as uint8 [N, 3, 64, 64]; only those that `limit` takes of each class are decoded."""
    wnids = archive.read_one("wnids.txt").decode("utf-8", "replace").split()
    if len(wnids) < 2 or len(set(wnids)) != len(wnids):
        raise DataError(f"'wnids.txt' in {str(archive.path)!r} does not list different classes, one on each line.")
    present = archive.names()
    train = _limited(_train_files(archive, present, wnids), len(wnids), limit)
    test = _limited(_test_files(archive, present, wnids), len(wnids), limit)
    for split, files in (("training", train), ("test", test)):
        absent = set(range(len(wnids))) - {label for _, label in files}
        if absent:
            raise DataError(f"{str(archive.path)!r} is incomplete: no {split} image of {wnids[min(absent)]!r}.")
    everything = _decoded(archive, [*train, *test], progress)
    first = len(train)
    return Source(
        "split-tinyimagenet",
        _class_names(archive, present, wnids),
        Examples(everything.x[:first], everything.y[:first]),
        Examples(everything.x[first:], everything.y[first:]),
        _INPUTS,
    )


def _train_files(archive: Archive, present: Sequence[str], wnids: Sequence[str]) -> list[tuple[str, int]]:
    column = {wnid: k for k, wnid in enumerate(wnids)}
    files = []
    for name in present:
        match PurePosixPath(name).parts:
            case ("train", wnid, "images", file) if wnid in column and file.endswith(".JPEG"):
                files.append((name, column[wnid]))
    return files


def _test_files(archive: Archive, present: Sequence[str], wnids: Sequence[str]) -> list[tuple[str, int]]:
    column = {wnid: k for k, wnid in enumerate(wnids)}
    known = set(present)
    files = []
    table = archive.read_one("val/val_annotations.txt").decode("utf-8", "replace")
    for number, line in enumerate(table.splitlines(), start=1):
        file, _, rest = line.partition("\t")
        name, wnid = f"val/images/{file}", rest.partition("\t")[0]
        if name not in known or wnid not in column:
            why = f"class {wnid[:100]!r} is not in wnids.txt" if name in known else f"there is no {name[:100]!r}"
            raise DataError(f"line {number} of 'val_annotations.txt' in {str(archive.path)!r} is wrong: {why}.")
        files.append((name, column[wnid]))
    return sorted(set(files))


def _limited(files: list[tuple[str, int]], classes: int, limit: Limit) -> list[tuple[str, int]]:
    if limit.count is None:
        return files
    rows = rows_by_class(torch.tensor([label for _, label in files], dtype=torch.int64), classes)
    kept = torch.cat([limit.of(group) for group in rows]).sort().values
    return [files[row] for row in kept.tolist()]


def _decoded(archive: Archive, files: Sequence[tuple[str, int]], progress: Progress | None) -> Examples:
    pixels = np.empty((len(files), 3, _SIDE, _SIDE), np.uint8)
    row = {name: k for k, (name, _) in enumerate(files)}

    def decode(names: Sequence[str]) -> None:
        for name, data in archive.read(names):
            where = f"image {name!r} in {str(archive.path)!r}"
            try:
                image = decode_rgb(data)
            except DataError as error:
                raise DataError(f"{where} is damaged: {error}.") from None
            if image.shape != (_SIDE, _SIDE, 3):
                raise DataError(f"{where} is {image.shape[1]} × {image.shape[0]} pixels, not {_SIDE} × {_SIDE}.")
            pixels[row[name]] = image.transpose(2, 0, 1)

    in_threads(decode, [name for name, _ in files], progress)
    return Examples(torch.from_numpy(pixels), torch.tensor([label for _, label in files], dtype=torch.int64))


def _class_names(archive: Archive, present: Sequence[str], wnids: Sequence[str]) -> tuple[str, ...]:
    """The first word for each class, or its identifier where words.txt has none."""
    words = {}
    if "words.txt" in present:
        for line in archive.read_one("words.txt").decode("utf-8", "replace").splitlines():
            wnid, _, synonyms = line.partition("\t")
            words[wnid] = synonyms.partition(",")[0].strip()
    return tuple(words.get(wnid) or wnid for wnid in wnids)
