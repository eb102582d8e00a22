"""Statistics: paired differences of seeds with Student's interval, and what chance alone explains of an accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

LEVEL = 0.95
"""Confidence of an interval."""

ENOUGH = 5
"""Seeds without which no claim is said to hold, whatever its interval."""

CHANCE = 0.01
"""How often a network that guesses may be taken for one that has learnt something."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of paired differences, and half the width of its interval (None with a single pair)."""

    mean: float
    half: float | None
    pairs: int

    @property
    def supported(self) -> bool:
        """Whether the interval excludes 0."""
        return self.half is not None and abs(self.mean) > self.half

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return None if self.half is None else self.mean + self.half


def paired_difference(differences: Sequence[float]) -> Difference | None:
    """Mean of differences of the same seeds, with the 95 % interval of Student's t; None where there is no pair.

    >>> paired_difference([0.01, 0.01, 0.01])
    Difference(mean=0.01, half=0.0, pairs=3)
    >>> paired_difference([0.01]), paired_difference([])
    (Difference(mean=0.01, half=None, pairs=1), None)
    """
    pairs = len(differences)
    if pairs == 0:
        return None
    half = student_t(pairs - 1) * stdev(differences) / sqrt(pairs) if pairs > 1 else None
    return Difference(fmean(differences), half, pairs)


def student_t(freedom: int) -> float:
    """How many standard errors half of a 95 % interval is, with these degrees of freedom.

    >>> [round(student_t(freedom), 3) for freedom in (1, 2, 4)]
    [12.706, 4.303, 2.776]
    """
    from scipy.special import stdtrit  # few commands need it, and it takes long to import

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def at_chance(accuracy: float, classes: int, examples: int) -> bool:
    """Whether guessing among the classes has at least this accuracy in more than 1 % of cases (binomial).

    >>> at_chance(0.5, 2, 2000), at_chance(0.52, 2, 2000), at_chance(0.53, 2, 2000)
    (True, True, False)
    """
    from scipy.special import bdtrc

    right = round(accuracy * examples)
    return right == 0 or float(bdtrc(right - 1, examples, 1 / classes)) > CHANCE


def accuracy_interval(right: int, examples: int) -> tuple[float, float]:
    """The 95 % interval of an accuracy (Wilson 1927): how far other examples of the same kind may lead.

    >>> [round(end, 3) for end in accuracy_interval(45, 50)]
    [0.786, 0.957]
    """
    from scipy.special import ndtri

    z = float(ndtri((1 + LEVEL) / 2))
    share, room = right / examples, z * z / examples
    middle = (share + room / 2) / (1 + room)
    half = z * sqrt(share * (1 - share) / examples + room / (4 * examples)) / (1 + room)
    return max(0.0, middle - half), min(1.0, middle + half)


def fell(lost: int, won: int) -> bool:
    """Whether the same examples are answered worse than before, by more than chance (McNemar's exact test, 5 %).

    `lost` were right before and are wrong now, `won` the other way round.

    >>> fell(5, 0), fell(4, 0), fell(10, 8)
    (True, False, False)
    """
    from scipy.special import bdtrc

    return lost > won and float(bdtrc(lost - 1, lost + won, 0.5)) < 1 - LEVEL
