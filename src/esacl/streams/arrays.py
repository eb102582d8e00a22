"""Your own arrays: images or feature vectors in memory, with labels of any kind."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
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
from esacl.streams.resize import Rule
from esacl.streams.rows import Rows
from esacl.streams.split import split

_FORMS = (
    "Allowed: images [N, H, W], [N, H, W, C] or [N, C, H, W] with 1 or 3 channels, as uint8 or floats, or float "
    "features [N, D]."
)
AS_IT_IS = ImageInputs((0.0,), (1.0,))
Labels = Sequence[Hashable] | npt.NDArray[Any] | Tensor


def from_arrays(
    x_train: npt.ArrayLike | Tensor,
    y_train: Labels,
    x_test: npt.ArrayLike | Tensor | None = None,
    y_test: Labels | None = None,
    *,
    tasks: int | None = None,
    classes_per_task: int | None = None,
    class_order: Literal["fixed", "shuffled"] = "fixed",
    seed: int = 0,
    limit_per_class: int | None = None,
    limit_order: Literal["scattered", "first"] = "scattered",
    validation: float = 0.1,
    blur: float = 0.0,
    image_size: int | None = None,
    resize: Rule = "crop",
    augment: str | bool = "standard",
    class_names: Sequence[str] | None = None,
    name: str | None = None,
) -> Stream:
    """A stream of your own examples, split by class.

    Images are [N, H, W], or have four axes of which exactly one of the second and the last has length 1 or 3; that one
    is the channels. Bytes (uint8) and floats are scaled by the mean and spread of each channel. Features are float
    [N, D] and reach the network as they are. Classes are the different labels in sorted order (in order of appearance
    where they cannot be sorted); `class_names` names them in that order. Without test arrays, a fixed fifth of each
    class is the test split. `image_size`, `resize` and `augment` are those of `esacl run`; by default nothing is
    augmented. `validation` = 0 holds nothing out of the training examples. Results call the stream `arrays`, or
    `arrays:NAME`.

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
        "blur": blur,
        "image_size": image_size,
        "resize": resize,
        "augment": augment,
    }
    config = parse(StreamConfig, settings, "from_arrays")
    found = labelled_source(x_train, y_train, x_test, y_test, validation=config.validation, name=name)
    if len(found.class_names) == 1:
        raise DataError(f"y_train has a single class, {found.class_names[0]}; a stream needs at least 2.")
    if not isinstance(class_names, Iterable | None):
        raise DataError(f"class_names = {class_names!r} is not allowed. Allowed: a list of texts, one for each label.")
    names = found.class_names if class_names is None else tuple(map(str, class_names))
    if len(names) != len(found.class_names):
        raise DataError(f"class_names has {len(names)} names, but y_train has {len(found.class_names)} labels.")
    if x_test is not None:
        _check_counts(found.test, found.class_names, least=1, split="test")
    inputs = measured(found.train.x[:])
    return split(replace(scaled(found, inputs), class_names=names), config, seed)


def labelled_source(
    x_train: npt.ArrayLike | Tensor,
    y_train: Labels,
    x_test: npt.ArrayLike | Tensor | None = None,
    y_test: Labels | None = None,
    *,
    validation: float,
    name: str | None = None,
) -> Source:
    """Arrays as a labelled data set, floats as they were given; its class names are the labels as text."""
    if (x_test is None) != (y_test is None):
        raise DataError("x_test and y_test belong together, but only one of them was given.")
    x, labels = _examples(x_train, "x_train"), _labels(y_train, "y_train")
    classes = classes_of(labels)
    names = tuple(map(str, classes))
    train = _coded(x, labels, classes, "train")
    least = 2 if validation > 0 else 1  # to learn from, and to hold out
    if x_test is None or y_test is None:
        _check_counts(train, names, least=least + 1, split="training")
        train, test = (train.take(rows) for rows in cut_test(train.y, len(classes)))
    else:
        test = _coded(_examples(x_test, "x_test"), _labels(y_test, "y_test"), classes, "test")
        if test.x.shape[1:] != train.x.shape[1:] or test.x.dtype != train.x.dtype:
            raise DataError(f"x_test holds {form(test.x)}, but x_train holds {form(train.x)}: make them alike.")
        _check_counts(train, names, least=least, split="training")
    return Source("arrays" if name is None else f"arrays:{name}", names, train, test, AS_IT_IS)


def measured(*parts: Tensor) -> ImageInputs:
    """How the network reads such training examples: images by the mean and spread of a channel, features as given."""
    if parts[0].dtype == torch.uint8:
        return measured_inputs(torch.cat(parts) if len(parts) > 1 else parts[0])
    if parts[0].shape[1:3] == (1, 1):
        return AS_IT_IS
    count = sum(part[:, 0].numel() for part in parts)
    mean = torch.stack([part.sum((0, 2, 3), dtype=torch.float64) for part in parts]).sum(0) / count
    squares = torch.stack([(part - mean.view(-1, 1, 1)).square().sum((0, 2, 3)) for part in parts]).sum(0)
    std = (squares / count).sqrt()
    return ImageInputs(tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist()))


def scaled(source: Source, inputs: ImageInputs) -> Source:
    """The same with these inputs; floats are stored as the network reads them, bytes as they are."""
    if source.train.x.dtype == torch.uint8 or inputs is AS_IT_IS:
        return replace(source, inputs=inputs)
    mean, std = (torch.tensor(values, dtype=torch.float64).view(1, -1, 1, 1) for values in (inputs.mean, inputs.std))
    train, test = (Examples(((part.x[:] - mean) / std).float(), part.y) for part in (source.train, source.test))
    return replace(source, train=train, test=test, inputs=inputs)


def _examples(values: npt.ArrayLike | Tensor, what: str) -> Tensor:
    """Images as uint8 or float32 [N, C, H, W], features as float32 [N, 1, 1, D]."""
    try:
        array = np.asarray(out_of_torch(values, what))
    except ValueError:
        raise DataError(f"{what} is not an array: its rows differ in length. {_FORMS}") from None
    if array.size == 0:
        raise DataError(f"{what} is empty: its shape is {list(array.shape)}. {_FORMS}")
    if array.dtype.kind == "f" and array.ndim > 1:
        array = _finite(array, what)
    if array.dtype == np.float32 and array.ndim == 2:
        return torch.from_numpy(array)[:, None, None, :]
    if array.dtype in (np.uint8, np.float32) and array.ndim == 3:
        return _stored(array[:, None])
    if array.dtype in (np.uint8, np.float32) and array.ndim == 4:
        axis = channel_axis(array.shape)
        if axis is not None:
            return _stored(np.moveaxis(array, axis, 1))
    raise DataError(f"{what} has type {array.dtype} and shape {list(array.shape)}. {_FORMS}")


def out_of_torch(values: Any, what: str) -> Any:
    """Tensors as arrays of NumPy, which has no bfloat16; anything else as it is."""
    if not isinstance(values, Tensor):
        return values
    if values.is_meta:
        raise DataError(f"{what} is a tensor on the device 'meta', which holds no values. Give one that does.")
    values = values.dequantize() if values.is_quantized else values
    dense = values.detach().to_dense() if values.layout != torch.strided else values.detach()
    return (dense.float() if dense.is_floating_point() and dense.dtype.itemsize < 4 else dense).cpu().numpy()


def _finite(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.float32]:
    """A copy as 32-bit floats, which all must be numbers."""
    with np.errstate(over="ignore"):  # what overflows is reported below
        values = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if len(bad):
        raise DataError(f"{what} has NaN or infinite values in {len(bad)} rows, the first is row {bad[0]}.")
    return values


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """Which of the second and the last of four axes is the channels: the one of length 1 or 3; None if not one is.

    >>> channel_axis((8, 32, 32, 3)), channel_axis((8, 1, 28, 28)), channel_axis((8, 3, 5, 3))
    (3, 1, None)
    """
    found = [axis for axis in (1, 3) if shape[axis] in (1, 3)]
    return found[0] if len(found) == 1 else None


def _stored(images: npt.NDArray[Any]) -> Tensor:
    """As a tensor of the caller's memory; `split` copies what it takes."""
    return torch.from_numpy(images if images.flags.writeable else images.copy())


def _labels(values: Labels, what: str) -> list[Hashable]:
    found = out_of_torch(values, what)
    if isinstance(found, np.ndarray) and found.ndim != 1:
        raise DataError(f"{what} has shape {list(found.shape)}, but one label for each example is needed: [N].")
    if not isinstance(found, Iterable):
        raise DataError(f"{what} is {found!r}, but one label for each example is needed: [N].")
    labels = list(found.tolist() if isinstance(found, np.ndarray) else found)
    for row, label in enumerate(labels):
        if not isinstance(label, Hashable) or label is None or bool(getattr(label, "shape", False)) or label != label:
            raise DataError(f"{what} has the label {label!r} in row {row}; a label is a number or a text.")
    return labels


def classes_of(labels: list[Hashable]) -> list[Hashable]:
    """The different labels, sorted; in order of appearance where they cannot be."""
    found = list(dict.fromkeys(labels))
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


def _check_counts(examples: Examples, classes: Sequence[str], least: int, split: str) -> None:
    for label, count in zip(classes, torch.bincount(examples.y, minlength=len(classes)).tolist()):
        if count < least:
            raise DataError(f"class {label} has {count} {split} examples, but at least {least} are needed.")


def form(x: Rows) -> str:
    """What examples are, in words."""
    if x.shape[1:3] == (1, 1) and x.dtype != torch.uint8:
        return f"{x.shape[3]} features"
    return f"images of shape {list(x.shape[1:])}, {'uint8' if x.dtype == torch.uint8 else 'floats'}"
