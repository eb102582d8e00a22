"""Confusion, calibration and temperature, one example at a time."""

from math import exp, log


def confusion(truth: list[int], answers: list[int], classes: int) -> list[list[int]]:
    """How many of class i were answered as j."""
    counts = [[0] * classes for _ in range(classes)]
    for right, answer in zip(truth, answers):
        counts[right][answer] += 1
    return counts


def calibration_error(confidence: list[float], right: list[bool], bins: int) -> float:
    """Σ over bins of |right answers − summed confidence| / n."""
    error = 0.0
    for number in range(bins):
        gap = 0.0
        for share, good in zip(confidence, right):
            if number / bins < share <= (number + 1) / bins:
                gap += (1.0 if good else 0.0) - share
        error += abs(gap)
    return error / len(confidence)


def cross_entropy(logits: list[list[float]], truth: list[int], temperature: float) -> float:
    """Mean of −log softmax(z / T)_y."""
    total = 0.0
    for row, right in zip(logits, truth):
        total -= row[right] / temperature - log(sum(exp(value / temperature) for value in row))
    return total / len(truth)
