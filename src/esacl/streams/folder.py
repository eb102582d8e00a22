"""Your own images: one sub-folder for each class, below PATH or below PATH/train and PATH/test (or PATH/val)."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from esacl.errors import DataError
from esacl.streams.base import Examples, Source
from esacl.streams.choose import choose, cut_test
from esacl.streams.images import Progress, measured_inputs
from esacl.streams.listing import LeftOut, image_files, listed
from esacl.streams.photos import Cache, examples_of
from esacl.streams.resize import Rule

SIDE = 32
"""Side of images where no other is asked for."""

MEASURED = 500
"""Training images, scattered evenly, of which mean and spread are taken."""


def read(
    path: Path, size: int, rule: Rule = "crop", cache: Cache | None = None, progress: Progress | None = None
) -> Source:
    """The images as uint8 [N, 3, size, size], classes in the order of their names.

    Without a test folder, a fixed fifth of each class (at least one image) is the test split. Pictures that cannot be
    decoded are left out, and said so in one warning.
    """
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}. Give the folder that holds one sub-folder for each class.")
    train_root, test_root = _roots(path)
    names = _class_names(train_root)
    warn_of_twins(names)
    left_out = LeftOut()

    def examples(root: Path, least: int) -> Examples:
        files = listed([root / name for name in names], left_out, progress)
        found = examples_of(files, left_out, (size, size), rule, cache, progress)
        _check_counts(found, names, least, root, left_out.damaged)
        return found

    if test_root is None:
        everything = examples(train_root, least=3)
        train, test = (everything.take(rows) for rows in cut_test(everything.y, len(names)))
    else:
        if _class_names(test_root) != names:
            odd = sorted(set(names) ^ set(_class_names(test_root)))
            raise DataError(f"{str(train_root)!r} and {str(test_root)!r} do not hold the same classes: {odd[0]!r}.")
        train, test = examples(train_root, least=2), examples(test_root, least=1)
    if left_out.damaged:
        warnings.warn(left_out.told(str(path)), stacklevel=2)
    sample = train.x[choose(torch.arange(len(train)), MEASURED, "measure")]
    inputs = replace(measured_inputs(sample, padding=max(1, size // 8), flip=True), resize=rule)
    return Source(f"folder:{path.resolve().name}", names, train, test, inputs, left_out)


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
    left_out = LeftOut()
    files = listed([path / name for name in names], left_out, progress)
    examples = examples_of(files, left_out, size, rule, "ram", progress)
    _check_counts(examples, names, 1, path, left_out.damaged)
    return names, examples, {Path(name): reason for name, reason in left_out.damaged.items()}


def labelled(path: Path) -> list[tuple[Path, str]]:
    """Every image file below the classes of a folder, or of its test split where it has one, with its class."""
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}. Give the folder that holds one sub-folder for each class.")
    train, test = _roots(path)
    root = train if test is None else test
    names = _class_names(root, least=1)
    return [(file, name) for name in names for file in image_files(root / name)]


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


def _check_counts(examples: Examples, names: Sequence[str], least: int, where: Path, broken: Mapping[str, str]) -> None:
    counts = torch.bincount(examples.y, minlength=len(names)).tolist()
    for name, count in zip(names, counts):
        if count < least:
            damage = f" ({len(broken)} files could not be read, such as {_first(broken)})" if broken else ""
            raise DataError(
                f"class {name!r} in {str(where)!r} has {count} readable images{damage}, but at least {least} are "
                f"needed. Add images to it or remove that sub-folder."
            )


def _first(broken: Mapping[str, str]) -> str:
    file, reason = next(iter(broken.items()))
    return f"{file!r} ({reason})"
