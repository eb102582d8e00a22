"""What a model is judged on: folders, streams and arrays, as batches in the form that it reads."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from esacl.code import check_allowed
from esacl.config import StreamConfig
from esacl.deploy.model import Label, Trained
from esacl.deploy.pictures import AT_ONCE, Answer, check_reads_images, read_for
from esacl.errors import InputError
from esacl.estimator.layout import arranged
from esacl.files import user_path
from esacl.streams import Stream, open_stream
from esacl.streams.arrays import out_of_torch
from esacl.streams.folder import labelled
from esacl.streams.images import Progress
from esacl.streams.resize import resized


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples of classes that the model knows."""

    x: Tensor  # as the model reads it, or bytes
    y: Tensor  # columns
    names: Sequence[str]
    task: int | None = None  # of the stream, where its tasks share classes


@dataclass(slots=True)
class Judged:
    """Data with what is left out of them, which is known when the last batch was read."""

    name: str
    batches: Callable[["Judged"], Iterator[Batch]]
    unknown: Counter[str] = field(default_factory=Counter)  # examples of classes that the model does not know
    unreadable: dict[str, str] = field(default_factory=dict)  # file and reason

    def __iter__(self) -> Iterator[Batch]:
        return self.batches(self)


def judged(
    data: Any, model: Trained, progress: Progress, data_dir: str | None = None, code: Collection[str] = ()
) -> Judged:
    """A folder of one sub-folder a class, the test split of a stream or of its name, or a pair of arrays (X, y)."""
    if isinstance(data, Stream):
        return _of_stream(data, model, progress)
    if isinstance(data, tuple) and len(data) == 2:
        return _of_arrays(data[0], data[1], model, progress)
    if not isinstance(data, str | Path):
        raise InputError(
            f"a model is evaluated on a folder, a stream or arrays (X, y), but a {type(data).__name__} was given."
        )
    path = user_path(data)
    if path.is_dir() or isinstance(data, Path) or "/" in data.partition(":")[0]:
        return _of_folder(path, model, progress)
    size = model.shape[1] if data.startswith("folder:") else None
    config = StreamConfig(data, image_size=size, resize=model.scale.resize, data_dir=data_dir)
    if config.is_code:
        check_allowed("stream", config.name, code)
    return _of_stream(open_stream(config, 0, progress), model, progress)


class Columns:
    """The column of a class by its name; numbers may be written with zeros before them."""

    def __init__(self, classes: Sequence[Label]) -> None:
        self._named = {str(label): place for place, label in enumerate(classes)}
        self._numbered = {label: place for place, label in enumerate(classes) if type(label) is int}

    def of(self, name: Any) -> int | None:
        """None where the model does not know the class."""
        text = str(name)
        number = int(text) if self._numbered and text.isascii() and text.removeprefix("-").isdigit() else None
        return self._named.get(text, self._numbered.get(number) if number is not None else None)


def compared(answers: Sequence[Answer], folders: Sequence[Path], classes: Sequence[Label]) -> list[bool]:
    """For each image below FOLDER/CLASS, whether the first answer is that class; other images are left out."""
    columns = Columns(classes)
    found = []
    for answer in answers:
        inside = [folder for folder in folders if answer.path.is_relative_to(folder) and folder != answer.path]
        parts = answer.path.relative_to(inside[0]).parts[:-1] if inside else ()
        column = columns.of(parts[0]) if parts else None
        if column is not None:
            found.append(answer.best[0][0] == classes[column])
    return found


def _of_folder(folder: Path, model: Trained, progress: Progress) -> Judged:
    check_reads_images(model)
    columns, files = Columns(model.classes), labelled(folder)

    def batches(found: Judged) -> Iterator[Batch]:
        found.unknown.update(name for _, name in files if columns.of(name) is None)
        known = [(file, name) for file, name in files if columns.of(name) is not None]
        for start in range(0, len(known), AT_ONCE):
            part = known[start : start + AT_ONCE]
            x, rows, broken = read_for(model, [file for file, _ in part])
            found.unreadable.update({str(file): reason for file, reason in broken.items()})
            y = torch.tensor([columns.of(part[row][1]) for row in rows], dtype=torch.int64)
            yield Batch(x, y, [str(part[row][0]) for row in rows])
            progress(start + len(part), len(known))

    return Judged(str(folder), batches)


def _of_stream(stream: Stream, model: Trained, progress: Progress) -> Judged:
    examples = stream.tasks[0].test.x
    is_bytes, side = examples.dtype == torch.uint8, model.shape[1:]
    fits = (examples.shape[1], *side) if is_bytes else tuple(stream.shape)  # images are resized, as in training
    _check_alike(fits, is_bytes, model)
    columns = [Columns(model.classes).of(name) for name in stream.class_names]
    total = sum(len(task.test) for task in stream.tasks)

    def batches(found: Judged) -> Iterator[Batch]:
        done = 0
        for task in stream.tasks:
            for start in range(0, len(task.test), AT_ONCE):
                x, labels = task.test.x[start : start + AT_ONCE], task.test.y[start : start + AT_ONCE].tolist()
                found.unknown.update(stream.class_names[label] for label in labels if columns[label] is None)
                rows = [row for row, label in enumerate(labels) if columns[label] is not None]
                y = torch.tensor([columns[labels[row]] for row in rows], dtype=torch.int64)
                names = [f"task {task.index + 1}, example {start + row + 1}" for row in rows]
                shown = resized(x[rows], side, model.scale.resize) if is_bytes else x[rows]
                yield Batch(shown, y, names, task.index if stream.shares_classes else None)
                done += len(labels)
                progress(done, total)

    return Judged(f"{stream.name} (test split)", batches)


def _of_arrays(x: Any, y: Any, model: Trained, progress: Progress) -> Judged:
    _, moved = arranged(np.asarray(out_of_torch(x, "X")), "auto")
    _check_alike(moved.shape[1:], moved.dtype == np.uint8, model)
    labels = np.asarray(out_of_torch(y, "y")).tolist()
    if len(labels) != len(moved):
        raise InputError(f"X holds {len(moved)} examples, but y {len(labels)} labels. Give one label for each.")
    columns = Columns(model.classes)

    def batches(found: Judged) -> Iterator[Batch]:
        for start in range(0, len(labels), AT_ONCE):
            part = [columns.of(label) for label in labels[start : start + AT_ONCE]]
            found.unknown.update(str(labels[start + row]) for row, column in enumerate(part) if column is None)
            rows = [row for row, column in enumerate(part) if column is not None]
            given = torch.from_numpy(np.ascontiguousarray(moved[start : start + AT_ONCE][rows]))
            wanted = torch.tensor([part[row] for row in rows], dtype=torch.int64)
            yield Batch(given, wanted, [f"example {start + row + 1}" for row in rows])
            progress(start + len(part), len(labels))

    return Judged("arrays", batches)


def _check_alike(shape: tuple[int, ...], is_bytes: bool, model: Trained) -> None:
    """Refuse examples that the model cannot read."""
    if tuple(shape) != tuple(model.shape) or is_bytes != (model.scale.kind == "bytes"):
        told, wanted = ("×".join(map(str, each)) for each in (shape, model.shape))
        kinds = ["bytes" if yes else "floats" for yes in (is_bytes, model.scale.kind == "bytes")]
        raise InputError(
            f"the examples are {told} (channels, height, width) of {kinds[0]}, but the model reads {wanted} of "
            f"{kinds[1]}. Give data of the kind that it has learnt from."
        )
