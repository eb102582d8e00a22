"""Your own arrays: images or feature vectors in memory, with labels of any kind."""

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from esacl.config import StreamConfig
from esacl.errors import DataError
from esacl.options import parse
from esacl.streams.base import Examples, Source, Stream
from esacl.streams.choose import cut_test
from esacl.streams.images import measured_inputs
from esacl.streams.inputs import ImageInputs
from esacl.streams.split import split

_FORMS = "Allowed: uint8 images [N, H, W], [N, H, W, C] or [N, C, H, W] with 1 or 3 channels, or float features [N, D]."


def from_arrays(
    x_train: npt.ArrayLike | Tensor,
    y_train: Sequence[Hashable] | npt.NDArray[Any] | Tensor,
    x_test: npt.ArrayLike | Tensor | None = None,
    y_test: Sequence[Hashable] | npt.NDArray[Any] | Tensor | None = None,
    *,
    tasks: int | None = None,
    classes_per_task: int | None = None,
    class_order: Literal["fixed", "shuffled"] = "fixed",
    seed: int = 0,
    limit_per_class: int | None = None,
    limit_order: Literal["scattered", "first"] = "scattered",
    validation: float = 0.1,
    class_names: Sequence[str] | None = None,
    name: str | None = None,
) -> Stream:
    """A stream of your own examples, split by class.

    Images are uint8: [N, H, W], or four axes of which exactly one of the second and the last has length 1 or 3; that
    one is the channels. Features are float [N, D] and reach the network as they are. Classes are the different labels
    in sorted order (in order of appearance where they cannot be sorted); `class_names` names them in that order.
    Without test arrays, a fixed fifth of each class is the test split. `validation` = 0 holds nothing out of the
    training examples. Nothing is augmented. Results call the stream `arrays`, or `arrays:NAME`.

    >>> x = np.arange(40, dtype=np.float32).reshape(20, 2)
    >>> stream = from_arrays(x, ["cat", "dog", "emu", "fox"] * 5)
    >>> [task.classes for task in stream.tasks], stream.class_names, stream.shape
    ([(0, 1), (2, 3)], ('cat', 'dog', 'emu', 'fox'), (1, 1, 2))
    """
    settings = {
        "tasks": tasks,
        "classes_per_task": classes_per_task,
        "class_order": class_order,
        "limit_per_class": limit_per_class,
        "limit_order": limit_order,
        "validation": validation,
    }
    config = parse(StreamConfig, settings, "from_arrays")
    if (x_test is None) != (y_test is None):
        raise DataError("x_test and y_test belong together, but only one of them was given.")
    x, labels = _examples(x_train, "x_train"), _labels(y_train, "y_train")
    classes = _classes(labels)
    train = _coded(x, labels, classes, "train")
    least = 2 if config.validation > 0 else 1  # to learn from, and to hold out
    if x_test is None or y_test is None:
        _check_counts(train, classes, least=least + 1, split="training")
        train, test = (train.take(rows) for rows in cut_test(train.y, len(classes)))
    else:
        test = _coded(_examples(x_test, "x_test"), _labels(y_test, "y_test"), classes, "test")
        if test.x.shape[1:] != train.x.shape[1:] or test.x.dtype != train.x.dtype:
            raise DataError(f"x_test holds {_form(test.x)}, but x_train holds {_form(train.x)}: make them alike.")
        _check_counts(train, classes, least=least, split="training")
        _check_counts(test, classes, least=1, split="test")
    names = tuple(map(str, class_names if class_names is not None else classes))
    if len(names) != len(classes):
        raise DataError(f"class_names has {len(names)} names, but y_train has {len(classes)} different labels.")
    inputs = measured_inputs(train.x) if train.x.dtype == torch.uint8 else ImageInputs((0.0,), (1.0,))
    return split(Source("arrays" if name is None else f"arrays:{name}", names, train, test, inputs), config, seed)


def _examples(values: npt.ArrayLike | Tensor, what: str) -> Tensor:
    """Images as uint8 [N, C, H, W], features as float32 [N, 1, 1, D]."""
    try:
        array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    except ValueError:
        raise DataError(f"{what} is not an array: its rows differ in length. {_FORMS}") from None
    if array.size == 0:
        raise DataError(f"{what} is empty: its shape is {list(array.shape)}. {_FORMS}")
    if array.dtype.kind == "f" and array.ndim == 2:
        with np.errstate(over="ignore"):  # what overflows is reported below
            features = array.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
        if len(bad):
            raise DataError(f"{what} has NaN or infinite values in {len(bad)} rows, the first is row {bad[0]}.")
        return torch.from_numpy(features)[:, None, None, :]
    if array.dtype == np.uint8 and array.ndim == 3:
        return _stored(array[:, None])
    if array.dtype == np.uint8 and array.ndim == 4:
        axis = channel_axis(array.shape)
        if axis is not None:
            return _stored(np.moveaxis(array, axis, 1))
    raise DataError(f"{what} has type {array.dtype} and shape {list(array.shape)}. {_FORMS}")


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """Which of the second and the last of four axes is the channels: the one of length 1 or 3; None if not one is.

    >>> channel_axis((8, 32, 32, 3)), channel_axis((8, 1, 28, 28)), channel_axis((8, 3, 5, 3))
    (3, 1, None)
    """
    found = [axis for axis in (1, 3) if shape[axis] in (1, 3)]
    return found[0] if len(found) == 1 else None


def _stored(images: npt.NDArray[np.uint8]) -> Tensor:
    """As a tensor of the caller's memory; `split` copies what it takes."""
    return torch.from_numpy(images if images.flags.writeable else images.copy())


def _labels(values: Sequence[Hashable] | npt.NDArray[Any] | Tensor, what: str) -> list[Hashable]:
    if isinstance(values, Tensor | np.ndarray) and values.ndim != 1:
        raise DataError(f"{what} has shape {list(values.shape)}, but one label for each example is needed: [N].")
    labels = list(values.tolist() if isinstance(values, Tensor | np.ndarray) else values)
    for row, label in enumerate(labels):
        if not isinstance(label, Hashable) or label is None or label != label:
            raise DataError(f"{what} has the label {label!r} in row {row}; a label is a number or a text.")
    return labels


def _classes(labels: list[Hashable]) -> list[Hashable]:
    found = list(dict.fromkeys(labels))
    if len(found) == 1:
        raise DataError(f"y_train has a single class, {found[0]!r}; a stream needs at least 2.")
    try:
        return sorted(found)  # type: ignore[type-var]
    except TypeError:
        return found


def _coded(x: Tensor, labels: list[Hashable], classes: list[Hashable], side: str) -> Examples:
    if len(x) != len(labels):
        raise DataError(f"x_{side} has {len(x)} examples, but y_{side} has {len(labels)} labels.")
    code = {label: k for k, label in enumerate(classes)}
    unseen = next((label for label in labels if label not in code), None)
    if unseen is not None:
        raise DataError(f"y_{side} has the label {unseen!r}, which does not occur in y_train.")
    return Examples(x, torch.tensor([code[label] for label in labels], dtype=torch.int64))


def _check_counts(examples: Examples, classes: list[Hashable], least: int, split: str) -> None:
    for label, count in zip(classes, torch.bincount(examples.y, minlength=len(classes)).tolist()):
        if count < least:
            raise DataError(f"class {label!r} has {count} {split} examples, but at least {least} are needed.")


def _form(x: Tensor) -> str:
    return f"{'images' if x.dtype == torch.uint8 else 'features'} of shape {list(x.shape[1:])}"
