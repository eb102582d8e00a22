"""Examples and labels out of other libraries' data sets, known by what they can do and not by their type."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from esacl.errors import DataError
from esacl.streams.arrays import out_of_torch

FORMS = (
    "Allowed: a torch Dataset of (x, label) with a length, a Hugging Face dataset, an Avalanche benchmark, a pair "
    "(X, y), or a list of those as tasks."
)
IMAGE_COLUMNS = ("image", "img", "pixel_values", "x", "features")
LABEL_COLUMNS = ("label", "labels", "fine_label", "target", "y", "class")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Examples and one label for each, before they are checked; names of the labels where the data know them."""

    x: Any
    y: Any
    names: Mapping[Hashable, str] | None = None


def labelled(data: Any, columns: tuple[str, str] | None = None) -> Labelled:
    """The examples and labels of a torch or Hugging Face data set, or of a pair (X, y)."""
    if has_columns(data):
        return _from_columns(data, columns)
    if columns is not None:
        raise DataError(f"columns = {columns!r} names columns of a Hugging Face dataset. Leave it out.")
    if isinstance(data, tuple | list) and len(data) == 2 and not any(map(is_dataset, data)):
        return Labelled(*data)
    if not is_dataset(data):
        raise DataError(_refusal(data))
    return _from_items(data)


def is_dataset(data: Any) -> bool:
    """Whether it is a data set whose examples can be asked for by number."""
    plain = isinstance(data, str | bytes | Mapping | Tensor | np.ndarray | tuple | list)
    return not plain and hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "iloc")


def has_columns(data: Any) -> bool:
    """Whether it is a Hugging Face dataset."""
    return hasattr(data, "column_names") and hasattr(data, "features") and hasattr(data, "__len__")


def _refusal(data: Any) -> str:
    """Why something is no data set, and what would be."""
    kind = type(data).__name__
    if isinstance(data, str):
        return f"{data!r} is a name. Open streams by name with esacl.open_stream({data!r})."
    if isinstance(data, Tensor | np.ndarray):
        return f"an array of shape {list(data.shape)} has no labels. Give a pair (X, y)."
    if hasattr(data, "iloc"):
        return f"a {kind} has no labels of its own. Give a pair: (table[features].to_numpy(), table['label'])."
    if hasattr(data, "dataset") and hasattr(data, "batch_size"):
        return f"a {kind} serves shuffled batches. Give what it reads from: loader.dataset."
    if hasattr(data, "__iter__") and not isinstance(data, tuple | list | Mapping):
        return f"a {kind} can only be read from the start, without a length. Give a data set with len() and [index]."
    return f"a {kind} is not labelled data. {FORMS}"


def _from_items(data: Any) -> Labelled:
    """A torch Dataset: every item is (x, label), or has more behind these two, as in Avalanche."""
    images, labels = [], []
    for index in range(len(data)):
        item = data[index]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise DataError(
                f"item {index} of the {type(data).__name__} is a {type(item).__name__}, not a pair (x, label). Make "
                f"its __getitem__ return (x, label)."
            )
        images.append(item[0])
        labels.append(_plain(item[1]))
    names = getattr(data, "classes", None)
    named = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(each, str) for each in names)
    return Labelled(stacked(images, type(data).__name__), labels, dict(enumerate(names)) if named and names else None)


def _from_columns(data: Any, columns: tuple[str, str] | None) -> Labelled:
    """A Hugging Face dataset: the columns that were named, or those with the usual names."""
    image, label = columns or (_usual(data, IMAGE_COLUMNS, "image"), _usual(data, LABEL_COLUMNS, "label"))
    for name in (image, label):
        if name not in data.column_names:
            raise DataError(f"the dataset has no column {name!r}. Its columns: {', '.join(data.column_names)}.")
    names = getattr(data.features[label], "names", None)
    labels = [_plain(value) for value in data[label]]
    return Labelled(stacked(list(data[image]), "dataset"), labels, None if names is None else dict(enumerate(names)))


def _usual(data: Any, names: Sequence[str], what: str) -> str:
    found = next((name for name in names if name in data.column_names), None)
    if found is None:
        raise DataError(
            f"none of the columns {', '.join(data.column_names)} has a usual name for the {what}. Say which are meant: "
            f"columns=('image', 'label')."
        )
    return found


def stacked(values: Sequence[Any], where: str) -> npt.NDArray[Any]:
    """Images or features of one shape, as one array."""
    if not values:
        raise DataError(f"the {where} is empty. Give data with examples.")
    arrays = [_array(value) for value in values]
    other = next((row for row, array in enumerate(arrays) if array.shape != arrays[0].shape), None)
    if other is not None:
        raise DataError(
            f"examples of the {where} differ in shape: {list(arrays[0].shape)} at 0, {list(arrays[other].shape)} at "
            f"{other}. Resize them to one size, such as in its transform."
        )
    return np.stack(arrays)


def _array(value: Any) -> npt.NDArray[Any]:
    if hasattr(value, "convert") and hasattr(value, "mode"):  # an image of Pillow
        return np.asarray(value if value.mode in ("L", "RGB") else value.convert("RGB"))
    return np.asarray(out_of_torch(value, "an example"))


def _plain(label: Any) -> Any:
    """A label as a number or a text of Python's own."""
    return (
        label.item()
        if isinstance(label, Tensor | np.generic) or (isinstance(label, np.ndarray) and label.size == 1)
        else label
    )
