"""Figures of the accuracy matrix R: R[i][j] is the accuracy on task j after stage i. All are pure functions.

Where a figure is not defined (one task, or all tasks trained at once) it is None.
"""

from collections.abc import Sequence
from statistics import fmean

Matrix = Sequence[Sequence[float]]


def average_accuracy(matrix: Matrix) -> float:
    """Acc_T: mean over tasks of the accuracy after the last stage.

    >>> average_accuracy([[1.0, 0.0], [0.5, 0.9]])
    0.7
    """
    return fmean(matrix[-1])


def forgetting(matrix: Matrix) -> float | None:
    """Mean over earlier tasks of the best accuracy they ever had, less the last one (Chaudhry et al. 2018).

    >>> forgetting([[1.0, 0.0], [0.5, 0.9]])
    0.5
    >>> forgetting([[0.5, 0.5, 0.2], [0.75, 1.0, 0.5], [0.5, 0.5, 1.0]])
    0.375
    >>> forgetting([[0.9]]) is None
    True
    """
    if not _sequential(matrix):
        return None
    last = len(matrix) - 1
    return fmean(max(matrix[i][j] for i in range(j, last)) - matrix[last][j] for j in range(last))


def backward_transfer(matrix: Matrix) -> float | None:
    """BWT: mean over earlier tasks of the last accuracy, less the one just after learning (Lopez-Paz 2017).

    >>> backward_transfer([[1.0, 0.0], [0.5, 0.9]])
    -0.5
    """
    if not _sequential(matrix):
        return None
    last = len(matrix) - 1
    return fmean(matrix[last][j] - matrix[j][j] for j in range(last))


def forward_transfer(matrix: Matrix, untrained: Sequence[float]) -> float | None:
    """FWT: mean over later tasks of the accuracy just before learning, less that of an untrained network.

    >>> forward_transfer([[1.0, 0.75], [0.5, 0.9]], untrained=[0.5, 0.5])
    0.25
    """
    if not _sequential(matrix):
        return None
    return fmean(matrix[j - 1][j] - untrained[j] for j in range(1, len(matrix)))


def pruning_drops(before: Matrix, after: Matrix) -> list[float]:
    """What pruning cost after each stage: mean accuracy on the tasks seen so far, before less after.

    >>> pruning_drops([[1.0, 0.0], [0.5, 0.75]], [[0.75, 0.0], [0.5, 0.5]])
    [0.25, 0.125]
    """
    seen = [len(after[0]) if len(after) == 1 else stage + 1 for stage in range(len(after))]
    return [fmean(one[:count]) - fmean(other[:count]) for one, other, count in zip(before, after, seen)]


def _sequential(matrix: Matrix) -> bool:
    """Whether there were several tasks, learnt one after the other."""
    return len(matrix) == len(matrix[0]) > 1
