"""Which classes are taken for which: the confusion matrix, and precision and recall of each class."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from esacl.documents import Count, Share

Counts = Sequence[Sequence[Count]]
MOST_CLASSES = 100
"""Classes of a matrix that is stored or drawn: of more, nothing could be told apart."""


def confusion_matrix(truth: Tensor, answers: Tensor, classes: int) -> Tensor:
    """Counts [classes, classes]: row i, column j is how many examples of class i were answered as j.

    >>> confusion_matrix(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return torch.bincount(truth * classes + answers, minlength=classes * classes).view(classes, classes)


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How well a class is told from the others; None where nothing can be divided by."""

    precision: Share | None  # share of the answers with this class that are right
    recall: Share | None  # share of the examples of this class that are answered rightly
    count: Count  # examples of this class


def class_scores(matrix: Counts) -> list[ClassScore]:
    """Precision, recall and count of each class of a confusion matrix.

    >>> class_scores([[1, 1], [0, 1]])[0]
    ClassScore(precision=1.0, recall=0.5, count=2)
    """
    answered = [sum(column) for column in zip(*matrix)]
    return [
        ClassScore(
            row[place] / answered[place] if answered[place] else None,
            row[place] / sum(row) if sum(row) else None,
            sum(row),
        )
        for place, row in enumerate(matrix)
    ]
