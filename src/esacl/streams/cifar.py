"""CIFAR-10 and CIFAR-100 (fine labels), from the official Python pickles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from esacl.errors import DataError
from esacl.streams.archive import Archive
from esacl.streams.base import Examples, Source
from esacl.streams.inputs import ImageInputs
from esacl.streams.unpickle import load

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Which files of the archive hold what, and under which key."""

    stream: str
    meta: str
    names: str
    train: tuple[str, ...]
    test: str
    labels: str
    classes: int
    inputs: ImageInputs


CIFAR10 = FileLayout(
    stream="split-cifar10",
    meta="batches.meta",
    names="label_names",
    train=tuple(f"data_batch_{k}" for k in range(1, 6)),
    test="test_batch",
    labels="labels",
    classes=10,
    inputs=ImageInputs((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), padding=4, flip=True),
)
CIFAR100 = FileLayout(
    stream="split-cifar100",
    meta="meta",
    names="fine_label_names",
    train=("train",),
    test="test",
    labels="fine_labels",
    classes=100,
    inputs=ImageInputs((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762), padding=4, flip=True),
)


def read(archive: Archive, layout: FileLayout) -> Source:
    """All images, as uint8 [N, 3, 32, 32], checked for shape, labels and completeness."""
    names: tuple[str, ...] = ()
    tables: dict[str, Examples] = {}
    for name, data in archive.read([layout.meta, *layout.train, layout.test]):
        where = f"{name!r} in {str(archive.path)!r}"
        contents = load(data, where)
        if name == layout.meta:
            names = _class_names(contents, layout, where)
        else:
            tables[name] = _examples(contents, layout, where)
    train = _joined([tables.pop(name) for name in layout.train])
    test = tables[layout.test]
    for split, examples in (("training", train), ("test", test)):
        absent = sorted(set(range(layout.classes)) - set(examples.y.tolist()))
        if absent:
            raise DataError(f"{str(archive.path)!r} is incomplete: no {split} image of class {names[absent[0]]!r}.")
    return Source(layout.stream, names, train, test, layout.inputs)


def _class_names(contents: dict[str, Any], layout: FileLayout, where: str) -> tuple[str, ...]:
    names = contents.get(layout.names)
    if not isinstance(names, list) or len(names) != layout.classes:
        raise DataError(f"{where} has no list {layout.names!r} of {layout.classes} class names.")
    if not all(isinstance(name, bytes | str) for name in names):
        raise DataError(f"{where} has class names in {layout.names!r} that are not text.")
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names)


def _examples(contents: dict[str, Any], layout: FileLayout, where: str) -> Examples:
    pixels, labels = contents.get("data"), contents.get(layout.labels)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (_PIXELS,):
        raise DataError(f"{where} has no images: its entry 'data' is not a uint8 table with {_PIXELS} columns.")
    if not isinstance(labels, list | np.ndarray) or len(labels) != len(pixels):
        raise DataError(f"{where} does not have one entry in {layout.labels!r} for each of its {len(pixels)} images.")
    return Examples(_images(pixels), torch.tensor(_checked(labels, layout, where), dtype=torch.int64))


def _checked(labels: Sequence[Any] | npt.NDArray[Any], layout: FileLayout, where: str) -> list[int]:
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    for value in values:
        if type(value) is not int or not 0 <= value < layout.classes:
            raise DataError(f"{where} has a label that is not a whole number from 0 to {layout.classes - 1}.")
    return values


def _images(pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
    writable = np.array(pixels, order="C")  # torch does not take the read-only bytes of a pickle
    return torch.from_numpy(writable).view(-1, 3, 32, 32)


def _joined(parts: list[Examples]) -> Examples:
    return parts[0] if len(parts) == 1 else Examples.joined(parts)
