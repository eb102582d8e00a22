"""Quotas: how many weights all tasks so far may keep together, such that after the last it is exactly 1 − s."""

from esacl.errors import unknown_name

QUOTAS = ("even", "first", "geometric", "literal")


def kept_after(quota: str, budget: int, task: int, tasks: int, ratio: float = 0.5) -> int:
    """Weights kept after a task (counted from 0) out of a budget for all tasks.

    even: the same for every task. first: the first task takes the share `ratio`, the others the rest evenly.
    geometric: each takes the share `ratio` of what is left, which needs no number of tasks; the last of a stream takes
    the rest. literal: the first task takes all, as Algorithm 1 reads, and whatever later tasks learn is pruned away
    again.

    >>> [kept_after("even", 100, task, 4) for task in range(4)]
    [25, 50, 75, 100]
    >>> [kept_after("first", 100, task, 4, ratio=0.4) for task in range(4)]
    [40, 60, 80, 100]
    >>> [kept_after("geometric", 100, task, 4) for task in range(4)]
    [50, 75, 88, 100]
    >>> [kept_after("literal", 100, task, 4) for task in range(4)]
    [100, 100, 100, 100]
    """
    if quota not in QUOTAS:
        raise unknown_name("quota", quota, QUOTAS)
    if quota == "literal" or task >= tasks - 1:
        return budget
    shares = {
        "even": (task + 1) / tasks,
        "first": ratio + (1 - ratio) * task / (tasks - 1),
        "geometric": 1 - (1 - ratio) ** (task + 1),
    }
    return round(budget * shares[quota])
