"""Labels of any kind as columns of the head, in the order in which their classes arrive."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite
from torch import Tensor

from esacl.documents import as_record
from esacl.errors import InputError
from esacl.streams.arrays import out_of_torch
from esacl.types import State

Array = npt.NDArray[Any]
LONGEST = 4 * 65_536  # bytes of a text that is a label
SAVED = "biufUO"  # kinds of NumPy's types that a saved classifier can hold
KINDS = {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers"}


@dataclass(frozen=True, slots=True)
class Labels:
    """The classes by column: the first `len(values)` of the columns that are set aside."""

    values: Array

    @staticmethod
    def none() -> "Labels":
        """No class yet."""
        return Labels(np.empty(0))

    def __len__(self) -> int:
        return len(self.values)

    def with_new(self, labels: Array, room: int) -> "Labels":
        """Columns for those of the labels that have none yet, in sorted order."""
        if labels.dtype.kind not in SAVED:
            raise InputError(
                f"y holds labels of type {labels.dtype}. Give whole numbers, truth values or texts: `y.astype(str)`."
            )
        found = np.unique(labels)
        if not len(self):
            added = Labels(found)
        elif _kind(found) != _kind(self.values):
            raise InputError(
                f"y holds {_kind(found)} such as {found.tolist()[0]!r}, but the labels so far are {_kind(self.values)} "
                f"such as {self.values.tolist()[0]!r}. Give labels of one kind: 1 and '1' would be two classes."
            )
        else:
            added = Labels(np.concatenate([self.values, found[~np.isin(found, self.values)]]))
        if len(added) > room:
            raise InputError(
                f"there are {len(added)} classes now, but max_classes={room} columns were set aside. Start anew with "
                f"fit, all examples at hand and max_classes={2 * len(added)} or more: a network that is trained "
                f"already cannot take further columns."
            )
        return added

    def with_classes(self, given: Array, classes: Any, room: int) -> "Labels":
        """Columns for the labels given, and for the classes that were named, if any were: all labels are of these."""
        known = self.with_new(given, room)
        if classes is None:
            return known
        named = column_or_1d(classes)
        known = known.with_new(named, room)
        strange = np.setdiff1d(given, named).tolist()
        if strange:
            raise InputError(f"y has the label {strange[0]!r}, which is not in classes. Add it there, or leave it out.")
        return known

    def columns_of(self, labels: Array) -> Tensor:
        """The column of each label; all are known."""
        order = np.argsort(self.values)
        return torch.from_numpy(order[np.searchsorted(self.values, labels, sorter=order)])

    @property
    def order(self) -> Array:
        """The columns in the order of their sorted labels."""
        return np.argsort(self.values)

    def state_dict(self) -> State:
        """Plain values and the type they have."""
        return {"type": self.values.dtype.str, "values": self.values.tolist()}

    @staticmethod
    def from_state(state: State) -> "Labels":
        """Labels of before; ValueError where they are none."""
        kind = np.dtype(as_record(state["type"], str))
        if kind.kind not in SAVED or kind.itemsize > LONGEST:
            raise ValueError(f"labels of type {kind}")
        return Labels(np.array(as_record(state["values"], list[str | int | float | bool]), dtype=kind))


def _kind(labels: Array) -> str:
    """What kind of thing labels are."""
    if labels.dtype.kind == "O":
        numbers = all(isinstance(label, int | float | np.number) for label in labels)
        return "numbers" if numbers else "texts"
    return KINDS.get(labels.dtype.kind, "texts")


def given_labels(y: Any, examples: int) -> Array:
    """y as an array of labels, one for each example."""
    if y is None:
        raise InputError("ContinualClassifier requires y to be passed, but the target y is None.")
    labels: Array = column_or_1d(out_of_torch(y, "y"), warn=True)
    if labels.dtype.kind in "fc":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    check_consistent_length(np.empty(examples), labels)
    if examples < 2:
        raise InputError(f"n_samples={examples} is too few: a task needs at least 2 examples. Collect some more.")
    return labels
