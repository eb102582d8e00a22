"""Loss surfaces with plain loops."""

from collections.abc import Callable
from math import sqrt

Vector = list[float]


def filter_normalised(direction: list[Vector], weight: list[Vector]) -> list[Vector]:
    """Each row of the direction, as long as the row of the weights."""
    found = []
    for row, own in zip(direction, weight):
        factor = sqrt(sum(x * x for x in own)) / sqrt(sum(x * x for x in row))
        found.append([factor * x for x in row])
    return found


def plane(
    loss: Callable[[Vector], float], start: Vector, one: Vector, other: Vector, lengths: Vector, widths: Vector
) -> list[Vector]:
    """The loss at start + length · one + width · other, a row for each width."""
    rows: list[Vector] = []
    for width in widths:
        rows.append([])
        for length in lengths:
            point = [s + length * a + width * b for s, a, b in zip(start, one, other)]
            rows[-1] += [loss(point)]
    return rows
