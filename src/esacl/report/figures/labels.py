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
_STRANGE = 5  # pixels around that where a name would be taken for its own


def place(
    points: Sequence[Point], sizes: Sequence[Point], room: Box, obstacles: Sequence[Box] = ()
) -> list[Box | None]:
    """A box for each name, as near to its point as there is room; None where there is none at all.

    Greedy, points with few around them first; what is chosen never overlaps what was chosen before. Points and
    `obstacles` are avoided where that is possible, and so is the side of a point that is not the name's own.
    """
    at = np.asarray(points, dtype=float).reshape(-1, 2)
    markers = np.concatenate([at - _SIZE, at + _SIZE], axis=1)
    crowd = [sum(hypot(*(other - point)) < 60 for other in at) for point in at]
    bars = np.asarray(obstacles, dtype=float).reshape(-1, 4)
    taken: list[Box] = []
    chosen: list[Box | None] = [None] * len(at)
    for n in sorted(range(len(at)), key=lambda n: crowd[n]):
        boxes, reach = _candidates(at[n], sizes[n])
        free = (boxes[:, :2] >= room[:2]).all(axis=1) & (boxes[:, 2:] <= room[2:]).all(axis=1)
        free &= _overlaps(boxes, np.array(taken).reshape(-1, 4)).sum(axis=1) == 0
        beside = np.delete(markers, n, axis=0) + np.array([-_STRANGE, -_STRANGE, _STRANGE, _STRANGE])
        price = (
            reach
            + 40 * _overlaps(boxes, beside).sum(axis=1)
            + 60 * _overlaps(boxes, markers).sum(axis=1)
            + 12 * _overlaps(boxes, bars).sum(axis=1)
        )
        if free.any():
            best = boxes[np.where(free, price, np.inf).argmin()]
            chosen[n] = (float(best[0]), float(best[1]), float(best[2]), float(best[3]))
            taken.append(chosen[n] or (0, 0, 0, 0))
    return chosen


def side_by_side(points: Sequence[Point], apart: float) -> list[Point]:
    """The same points, those that would hide another moved to its side, but never further than twice `apart`.

    >>> side_by_side([(5.0, 5.0), (5.0, 5.0), (5.0, 5.0), (40.0, 5.0)], 8)
    [(5.0, 5.0), (13.0, 5.0), (-3.0, 5.0), (40.0, 5.0)]
    """
    steps = [side * step * apart / 4 for step in range(9) for side in (1, -1)]
    moved: list[Point] = []
    for x, y in points:
        near = [min((hypot(x + step - other, y - height) for other, height in moved), default=apart) for step in steps]
        free = [step for step, distance in zip(steps, near) if distance > apart - 1e-9]
        moved.append((x + (free[0] if free else steps[near.index(max(near))]), y))
    return moved


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
    """Boxes around a point, nearest first, and how far away each is; beside a point a name starts or ends there."""
    boxes, reaches = [], []
    for reach in _REACH:
        for turn, (x, y) in enumerate(_DIRECTIONS):
            upright = abs(x) < 0.3
            centre = point[1] + y * (_SIZE + reach + size[1] / 2)
            edge = point[0] + x * (_SIZE + 3 + reach)
            left = edge - size[0] / 2 if upright else edge if x > 0 else edge - size[0]
            boxes.append((left, centre - size[1] / 2, left + size[0], centre + size[1] / 2))
            reaches.append(reach + 0.5 * turn)
    return np.array(boxes), np.array(reaches)


def _overlaps(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[box][other]: whether they share any area."""
    one, two = boxes[:, None], others[None]
    apart = (one[..., 0] >= two[..., 2]) | (two[..., 0] >= one[..., 2])
    apart |= (one[..., 1] >= two[..., 3]) | (two[..., 1] >= one[..., 3])
    return np.asarray(~apart)
