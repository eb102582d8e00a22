"""Where names stand so that none covers another or a point."""

from collections.abc import Sequence
from math import cos, hypot, pi, sin

import numpy as np
from numpy.typing import NDArray

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top

_REACH = (0, 8, 18, 30, 44, 60, 78, 98, 120, 145, 175)  # pixels that a name may stand away from its point
_DIRECTIONS = [
    (cos(turn * pi / 8), sin(turn * pi / 8)) for turn in (0, 8, 4, 12, 2, 14, 6, 10, 1, 15, 7, 9, 3, 13, 5, 11)
]
_SIZE = 6  # pixels around a point that no name covers


def place(points: Sequence[Point], sizes: Sequence[Point], room: Box) -> list[Box | None]:
    """A box for each name, as near to its point as there is room; None where there is none at all.

    Greedy, the most crowded point first; what is chosen never overlaps what was chosen before.
    """
    at = np.asarray(points, dtype=float).reshape(-1, 2)
    markers = np.concatenate([at - _SIZE, at + _SIZE], axis=1)
    crowd = [sum(hypot(*(other - point)) < 60 for other in at) for point in at]
    taken: list[Box] = []
    chosen: list[Box | None] = [None] * len(at)
    for n in sorted(range(len(at)), key=lambda n: -crowd[n]):
        boxes, reach = _candidates(at[n], sizes[n])
        free = (boxes[:, :2] >= room[:2]).all(axis=1) & (boxes[:, 2:] <= room[2:]).all(axis=1)
        free &= _overlaps(boxes, np.array(taken).reshape(-1, 4)).sum(axis=1) == 0
        price = reach + 40 * _overlaps(boxes, np.delete(markers, n, axis=0)).sum(axis=1)
        if free.any():
            best = boxes[np.where(free, price, np.inf).argmin()]
            chosen[n] = (float(best[0]), float(best[1]), float(best[2]), float(best[3]))
            taken.append(chosen[n] or (0, 0, 0, 0))
    return chosen


def spread_out(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The same heights in the same order, moved as little as needed to be `gap` apart, between `low` and `high`.

    >>> spread_out([50.0, 51.0, 10.0], 10, 0, 100)
    [45.5, 55.5, 10.0]
    >>> spread_out([99.0, 100.0], 10, 0, 100)
    [90.0, 100.0]
    """
    order = sorted(range(len(heights)), key=lambda n: heights[n])
    piles: list[tuple[float, int]] = []  # centre and number of those that stand at each other
    for n in order:
        centre, count = heights[n], 1
        while True:
            half = gap * (count - 1) / 2
            centre = min(max(centre, low + half), high - half)
            if not piles or centre - half - gap >= piles[-1][0] + gap * (piles[-1][1] - 1) / 2 - 1e-9:
                break
            other, more = piles.pop()
            centre, count = (centre * count + other * more) / (count + more), count + more
        piles.append((centre, count))
    placed = [centre + gap * (k - (count - 1) / 2) for centre, count in piles for k in range(count)]
    return [placed[order.index(n)] for n in range(len(heights))]


def nearest_edge(box: Box, point: Point) -> Point:
    """The point of a box that is nearest to another: where a leader ends."""
    return min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3])


def _candidates(point: NDArray[np.float64], size: Point) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Boxes around a point, nearest first, and how far away each is."""
    boxes, reaches = [], []
    for reach in _REACH:
        for turn, (x, y) in enumerate(_DIRECTIONS):
            centre = (point[0] + x * (_SIZE + 3 + reach + size[0] / 2), point[1] + y * (_SIZE + reach + size[1] / 2))
            boxes.append(
                (centre[0] - size[0] / 2, centre[1] - size[1] / 2, centre[0] + size[0] / 2, centre[1] + size[1] / 2)
            )
            edge = nearest_edge(boxes[-1], (point[0], point[1]))
            reaches.append(hypot(edge[0] - point[0], edge[1] - point[1]) + 0.2 * turn)
    return np.array(boxes), np.array(reaches)


def _overlaps(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[box][other]: whether they share any area."""
    one, two = boxes[:, None], others[None]
    apart = (one[..., 0] >= two[..., 2]) | (two[..., 0] >= one[..., 2])
    apart |= (one[..., 1] >= two[..., 3]) | (two[..., 1] >= one[..., 3])
    return np.asarray(~apart)
