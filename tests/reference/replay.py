"""ER's and DER++'s replay terms, one example and one class at a time."""

from math import exp, log

from torch import Tensor


def cross_entropy(logits: Tensor, y: Tensor) -> float:
    """Mean over examples of −log softmax at the label."""
    total = 0.0
    for row, label in zip(logits.tolist(), y.tolist()):
        total += log(sum(exp(value) for value in row)) - row[label]
    return total / len(y)


def squared_distance(logits: Tensor, stored: Tensor) -> float:
    """Mean over examples and classes of (now − then)²."""
    differences = [(a - b) ** 2 for now, then in zip(logits.tolist(), stored.tolist()) for a, b in zip(now, then)]
    return sum(differences) / len(differences)


def derpp(alpha: float, beta: float, dark: tuple[Tensor, Tensor], labelled: tuple[Tensor, Tensor]) -> float:
    """α·MSE(logits now, stored logits) on one batch + β·CE on another."""
    return alpha * squared_distance(*dark) + beta * cross_entropy(*labelled)
