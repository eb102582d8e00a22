"""Fixed choices of examples: the same for every seed, so that no run trains on what another is judged by."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from esacl.rng import derive, keyed_integers

TEST_SHARE = 0.2
"""Share of each class held out for testing where the data has no test split of its own."""


def rows_by_class(y: Tensor, classes: int) -> list[Tensor]:
    """The rows of each class, in order."""
    ends = torch.bincount(y, minlength=classes).cumsum(0)[:-1]
    return list(y.argsort(stable=True).tensor_split(ends.tolist()))


def choose(rows: Tensor, take: int, purpose: str) -> Tensor:
    """`take` of the rows, scattered evenly, in order; fewer for a smaller `take`, never others.

    >>> choose(torch.arange(10), 3, "limit").tolist() == choose(torch.arange(10), 3, "limit").tolist()
    True
    """
    if take >= len(rows):
        return rows
    rank = keyed_integers(derive(0, "choose", purpose), torch.arange(len(rows)), 1 << 31).argsort(stable=True)
    return rows[rank[:take].sort().values]


@dataclass(frozen=True, slots=True)
class Limit:
    """How many examples of each class are used, and which: scattered evenly, or the first in file order."""

    count: int | None = None  # all
    order: Literal["scattered", "first"] = "scattered"

    def of(self, rows: Tensor) -> Tensor:
        """The rows of a class that are used, in order.

        >>> Limit(3, "first").of(torch.arange(10)).tolist()
        [0, 1, 2]
        """
        if self.count is None:
            return rows
        return rows[: self.count] if self.order == "first" else choose(rows, self.count, "limit")


def cut(rows: Tensor, share: float, purpose: str) -> tuple[Tensor, Tensor]:
    """The rows that stay, and the share of them that is held out: at least one, never all; none for a share of 0."""
    if share == 0:
        return rows, rows[:0]
    held = choose(rows, held_out(len(rows), share), purpose)
    return rows[~torch.isin(rows, held)], held


def held_out(count: int, share: float) -> int:
    """How many of so many rows are held out.

    >>> held_out(400, 0.25), held_out(3, 0.1), held_out(2, 0.9)
    (100, 1, 1)
    """
    return min(max(1, round(count * share)), count - 1)


def cut_test(y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Rows for training and rows for testing, with the same share of every class."""
    parts = [cut(rows, TEST_SHARE, "test") for rows in rows_by_class(y, classes)]
    train, test = (torch.cat(side).sort().values for side in zip(*parts))
    return train, test
