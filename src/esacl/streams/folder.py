"""Your own images: one sub-folder for each class, below PATH or below PATH/train and PATH/test (or PATH/val)."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from esacl.errors import DataError
from esacl.streams.base import Examples, Source
from esacl.streams.choose import cut_test
from esacl.streams.images import Progress, decode_resized, in_threads, measured_inputs
from esacl.streams.limits import MAX_BYTES, max_bytes
from esacl.streams.resize import Rule

SIDE = 32
"""Side of images where no other is asked for."""

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""File names that are taken for images, in any case; other files are ignored."""


def read(path: Path, size: int, rule: Rule = "crop", progress: Progress | None = None) -> Source:
    """The images as uint8 [N, 3, size, size], classes in the order of their names.

    Without a test folder, a fixed fifth of each class (at least one image) is the test split. Pictures that cannot be
    decoded are left out, and said so in one warning.
    """
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}. Give the folder that holds one sub-folder for each class.")
    train_root, test_root = _roots(path)
    names = _class_names(train_root)
    warn_of_twins(names)
    if test_root is None:
        everything, broken = decoded(_listed(train_root, names), (size, size), rule, progress)
        _check_counts(everything, names, least=3, where=train_root, broken=broken)
        train, test = (everything.take(rows) for rows in cut_test(everything.y, len(names)))
    else:
        if _class_names(test_root) != names:
            odd = sorted(set(names) ^ set(_class_names(test_root)))
            raise DataError(f"{str(train_root)!r} and {str(test_root)!r} do not hold the same classes: {odd[0]!r}.")
        train, broken = decoded(_listed(train_root, names), (size, size), rule, progress)
        test, broken_too = decoded(_listed(test_root, names), (size, size), rule, progress)
        _check_counts(train, names, least=2, where=train_root, broken=broken)
        _check_counts(test, names, least=1, where=test_root, broken=broken_too)
        broken = {**broken, **broken_too}
    if broken:
        warnings.warn(
            f"{len(broken)} of the image files in {str(path)!r} could not be read, and were left out, such as "
            f"{_first(broken)}.",
            stacklevel=2,
        )
    inputs = replace(measured_inputs(train.x, padding=max(1, size // 8), flip=True), resize=rule)
    return Source(f"folder:{path.resolve().name}", names, train, test, inputs)


def read_task(
    path: Path, size: tuple[int, int], rule: Rule, progress: Progress | None = None
) -> tuple[tuple[str, ...], Examples, dict[Path, str]]:
    """All images of a folder as one task: names of its classes, the readable images, and why others are not."""
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}. Give the folder that holds one sub-folder for each class.")
    for name in ("test", "val"):
        if (path / "train").is_dir() and (path / name).is_dir():
            raise DataError(
                f"{str(path)!r} holds 'train' and {name!r}, which are splits and not classes. "
                f"Give {str(path / 'train')!r}."
            )
    names = _class_names(path, least=1)
    examples, broken = decoded(_listed(path, names), size, rule, progress)
    _check_counts(examples, names, least=1, where=path, broken=broken)
    return names, examples, broken


def labelled(path: Path) -> list[tuple[Path, str]]:
    """Every image file below the classes of a folder, or of its test split where it has one, with its class."""
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}. Give the folder that holds one sub-folder for each class.")
    train, test = _roots(path)
    root = train if test is None else test
    names = _class_names(root, least=1)
    return [(file, names[place]) for file, place in _listed(root, names)]


def _roots(path: Path) -> tuple[Path, Path | None]:
    """Where the training and the test classes are. A `test` folder wins over `val`."""
    for name in ("test", "val"):
        if (path / "train").is_dir() and (path / name).is_dir():
            return path / "train", path / name
    only_train = [child.name for child in path.iterdir() if child.is_dir()] == ["train"]
    return (path / "train" if only_train else path), None


def _class_names(root: Path, least: int = 2) -> tuple[str, ...]:
    names = sorted(child.name for child in root.iterdir() if child.is_dir() and not child.name.startswith("."))
    if len(names) < least:
        found = f"only the sub-folder {names[0]!r}" if names else "no sub-folder"
        wanted = "one class is" if least == 1 else f"{least} classes are"
        raise DataError(
            f"{str(root)!r} holds {found}, but at least {wanted} needed. Put the images of each class into a "
            "sub-folder of its own."
        )
    return tuple(names)


def warn_of_twins(names: Sequence[str], known: Sequence[str] = ()) -> None:
    """Say which classes have all but the same name: letters may be classes of both cases, so it is no error."""
    found: dict[str, str] = {name.casefold().strip(): name for name in known}
    for name in names:
        other = found.setdefault(name.casefold().strip(), name)
        if name != other and name not in known:
            warnings.warn(
                f"{other!r} and {name!r} are learnt as two classes. If they are one, put their images into one "
                f"sub-folder and start again.",
                stacklevel=3,
            )


def image_files(folder: Path) -> list[Path]:
    """Every image file below a folder, sorted by name."""
    found = [
        Path(place, file)
        for place, _, inside in os.walk(folder)
        for file in inside
        if file.lower().endswith(SUFFIXES) and not file.startswith(".") and Path(place, file).is_file()
    ]
    return sorted(found, key=Path.as_posix)


def _listed(root: Path, names: Sequence[str]) -> list[tuple[Path, int]]:
    """Every image file with its class, sorted by class and name."""
    return [(file, label) for label, name in enumerate(names) for file in image_files(root / name)]


def decoded(
    files: Sequence[tuple[Path, int]], size: tuple[int, int], rule: Rule, progress: Progress | None = None
) -> tuple[Examples, dict[Path, str]]:
    """The readable ones of these files with their labels, and why each of the others is not."""
    pixels = _room(len(files), *size)
    broken: dict[int, str] = {}

    def decode(rows: Sequence[int]) -> None:
        for row in rows:
            try:
                if files[row][0].stat().st_size > max_bytes():
                    raise DataError(f"more than {max_bytes():,} bytes: raise {MAX_BYTES} if you trust it")
                pixels[row] = decode_resized(files[row][0].read_bytes(), size, rule).transpose(2, 0, 1)
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


def _first(broken: Mapping[Path, str]) -> str:
    file, reason = next(iter(broken.items()))
    return f"{str(file)!r} ({reason})"


def _check_counts(
    examples: Examples, names: Sequence[str], least: int, where: Path, broken: Mapping[Path, str]
) -> None:
    counts = torch.bincount(examples.y, minlength=len(names)).tolist()
    for name, count in zip(names, counts):
        if count < least:
            damage = f" ({len(broken)} files could not be read, such as {_first(broken)})" if broken else ""
            raise DataError(
                f"class {name!r} in {str(where)!r} has {count} readable images{damage}, but at least {least} are "
                f"needed. Add images to it or remove that sub-folder."
            )
