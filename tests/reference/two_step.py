"""Two steps, one example after the other: probabilities of tasks, then of the classes of each."""

from math import exp


def probabilities(logits: list[float], scores: list[float], tasks: list[list[int]]) -> list[float]:
    """p(task) · p(class | task), 0 for classes of no task."""
    found = [0.0] * len(logits)
    known = [column for own in tasks for column in own]
    whole = sum(exp(scores[column]) for column in known)
    for own in tasks:
        chosen = sum(exp(scores[column]) for column in own) / whole
        inside = sum(exp(logits[column]) for column in own)
        for column in own:
            found[column] = chosen * exp(logits[column]) / inside
    return found
