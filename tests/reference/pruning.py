"""Naïve twin of one-shot pruning: every weight in one Python list, sorted."""

from collections.abc import Mapping
from fractions import Fraction

from torch import Tensor

Place = tuple[str, int]  # a parameter's name, and where in it


def keep(
    weights: Mapping[str, Tensor],
    kept: set[Place],
    level: float,
    task: int,
    tasks: int,
    quota: str = "even",
    ratio: float = 0.5,
    scope: str = "global",
) -> set[Place]:
    """The weights that are kept when a task ends, given those that were kept before."""
    groups = [[name] for name in weights] if scope == "layer" else [list(weights)]
    result = set(kept)
    for names in groups:
        sizes = {(name, at): abs(size) for name in names for at, size in enumerate(weights[name].flatten().tolist())}
        own = {place for place in kept if place in sizes}
        free = [place for place in sizes if place not in own and sizes[place] != 0]
        score = {place: sizes[place] for place in free}
        if scope == "adaptive":
            score = {place: relative(place, free, sizes) for place in free}
        free.sort(key=lambda place: -score[place])  # stable: among equal ones those that come first
        budget = round((1 - level) * len(sizes))
        result.update(free[: allowance(budget, task, tasks, quota, ratio) - len(own)])
    return result


def relative(place: Place, free: list[Place], sizes: Mapping[Place, float]) -> float:
    """Square of a weight over those of its layer's free weights that are left when it goes, itself included.

    Smaller ones go before it; among equal ones those that come first go first.
    """
    name, at = place
    left = [
        sizes[other] ** 2
        for other in free
        if other[0] == name and (sizes[other] > sizes[place] or (sizes[other] == sizes[place] and other[1] >= at))
    ]
    return sizes[place] ** 2 / sum(left)


def allowance(budget: int, task: int, tasks: int, quota: str, ratio: float) -> int:
    """Weights that may be kept after a task, task by task."""
    if quota == "literal" or task == tasks - 1:
        return budget
    left = Fraction(budget)
    rest = left * (1 - Fraction(ratio))  # for the tasks after the first, where that one has a share of its own
    for number in range(task + 1):
        if quota == "first":
            left -= left * Fraction(ratio) if number == 0 else rest / (tasks - 1)
        else:
            left -= Fraction(budget, tasks) if quota == "even" else left * Fraction(ratio)
    return round(budget - left)
