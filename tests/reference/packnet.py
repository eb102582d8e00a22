"""Naïve twin of PackNet's pruning: every weight in one Python list, sorted."""

from torch import Tensor


def own(weight: Tensor, owner: list[int], task: int, quota: int) -> list[int]:
    """Owners of a layer's weights (0: nobody) after a task has taken its quota of the largest free ones."""
    sizes = [abs(value) for value in weight.flatten().tolist()]
    free = [at for at, who in enumerate(owner) if who == 0 and sizes[at] > 0]
    free.sort(key=lambda at: -sizes[at])  # stable: among equal ones those that come first
    result = list(owner)
    for at in free[:quota]:
        result[at] = task + 1
    return result


def even(size: int, level: float, owner: list[int], task: int, tasks: int) -> int:
    """What a task may take so that all tasks so far have their even part of 1 − level."""
    budget = round((1 - level) * size)
    allowed = budget if task == tasks - 1 else round(budget * ((task + 1) / tasks))
    return allowed - sum(who > 0 for who in owner)


def answer(weight: Tensor, owner: list[int], task: int) -> list[float]:
    """The weights that a task answers with."""
    return [w if 0 < who <= task + 1 else 0.0 for w, who in zip(weight.flatten().tolist(), owner)]
