"""Your own images: one sub-folder for each class, below PATH or below PATH/train and PATH/test (or PATH/val)."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from esacl.errors import DataError
from esacl.streams.base import Examples, Source
from esacl.streams.choose import cut_test
from esacl.streams.images import Progress, decode_resized, in_threads, measured_inputs

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""File names that are taken for images, in any case; other files are ignored."""


def read(path: Path, size: int, progress: Progress | None = None) -> Source:
    """The images as uint8 [N, 3, size, size], classes in the order of their names.

    Without a test folder, a fixed fifth of each class (at least one image) is the test split. Pictures that cannot be
    decoded are left out, and said so in one warning.
    """
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}. Give the folder that holds one sub-folder for each class.")
    train_root, test_root = _roots(path)
    names = _class_names(train_root)
    if test_root is None:
        everything, broken = _decoded(_listed(train_root, names), size, progress)
        _check_counts(everything, names, least=3, where=train_root, broken=broken)
        train, test = (everything.take(rows) for rows in cut_test(everything.y, len(names)))
    else:
        if _class_names(test_root) != names:
            odd = sorted(set(names) ^ set(_class_names(test_root)))
            raise DataError(f"{str(train_root)!r} and {str(test_root)!r} do not hold the same classes: {odd[0]!r}.")
        train, broken = _decoded(_listed(train_root, names), size, progress)
        test, broken_too = _decoded(_listed(test_root, names), size, progress)
        _check_counts(train, names, least=2, where=train_root, broken=broken)
        _check_counts(test, names, least=1, where=test_root, broken=broken_too)
        broken = [*broken, *broken_too]
    if broken:
        warnings.warn(
            f"{len(broken)} image files in {str(path)!r} could not be read and were left out, such as {broken[0]}.",
            stacklevel=2,
        )
    inputs = measured_inputs(train.x, padding=max(1, size // 8), flip=True)
    return Source(f"folder:{path.resolve().name}", names, train, test, inputs)


def _roots(path: Path) -> tuple[Path, Path | None]:
    """Where the training and the test classes are. A `test` folder wins over `val`."""
    for name in ("test", "val"):
        if (path / "train").is_dir() and (path / name).is_dir():
            return path / "train", path / name
    only_train = [child.name for child in path.iterdir() if child.is_dir()] == ["train"]
    return (path / "train" if only_train else path), None


def _class_names(root: Path) -> tuple[str, ...]:
    names = sorted(child.name for child in root.iterdir() if child.is_dir() and not child.name.startswith("."))
    if len(names) < 2:
        found = f"only {names[0]!r}" if names else "no sub-folder"
        raise DataError(
            f"{str(root)!r} does not hold at least 2 classes but {found}. Put the images of each class into a "
            "sub-folder of its own."
        )
    return tuple(names)


def _listed(root: Path, names: Sequence[str]) -> list[tuple[Path, int]]:
    """Every image file with its class, sorted by class and name."""
    files = []
    for label, name in enumerate(names):
        found = [
            Path(folder, file)
            for folder, _, inside in os.walk(root / name)
            for file in inside
            if file.lower().endswith(SUFFIXES) and not file.startswith(".") and Path(folder, file).is_file()
        ]
        files += [(file, label) for file in sorted(found, key=Path.as_posix)]
    return files


def _decoded(files: Sequence[tuple[Path, int]], size: int, progress: Progress | None) -> tuple[Examples, list[str]]:
    """The readable images, and a line on each of the others."""
    pixels = np.empty((len(files), 3, size, size), np.uint8)
    broken: dict[int, str] = {}

    def decode(rows: Sequence[int]) -> None:
        for row in rows:
            file = files[row][0]
            try:
                pixels[row] = decode_resized(file.read_bytes(), size).transpose(2, 0, 1)
            except (DataError, OSError) as error:
                broken[row] = f"{str(file)!r} ({error})"

    in_threads(decode, range(len(files)), progress)
    labels = torch.tensor([label for _, label in files], dtype=torch.int64)
    examples = Examples(torch.from_numpy(pixels), labels)
    if broken:
        examples = examples.take(
            torch.tensor([row for row in range(len(files)) if row not in broken], dtype=torch.int64)
        )
    return examples, [broken[row] for row in sorted(broken)]


def _check_counts(examples: Examples, names: Sequence[str], least: int, where: Path, broken: Sequence[str]) -> None:
    counts = torch.bincount(examples.y, minlength=len(names)).tolist()
    for name, count in zip(names, counts):
        if count < least:
            damage = f" ({len(broken)} files could not be read, such as {broken[0]})" if broken else ""
            raise DataError(
                f"class {name!r} in {str(where)!r} has {count} readable images{damage}, but at least {least} are "
                f"needed. Add images to it or remove that sub-folder."
            )
