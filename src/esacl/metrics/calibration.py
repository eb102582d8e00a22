"""Calibration: whether answers of 80 % confidence are right in 80 % of cases, and a temperature that mends it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import torch
from torch import Tensor

from esacl.documents import Count, Share

BINS = 15
"""Intervals of confidence, all of the same width."""

COLDEST, HOTTEST = 0.05, 20.0
"""Temperatures that are tried: where every answer is right, none is too cold."""

_STEPS = 40  # halvings of the interval between them: to 1e-11 of it


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of about the same confidence."""

    count: Count
    confidence: Share  # mean
    accuracy: Share


def reliability(confidence: Tensor, right: Tensor, bins: int = BINS) -> list[Bin]:
    """The answers by confidence, in intervals (k/bins, (k+1)/bins] that hold any.

    >>> [each.count for each in reliability(torch.tensor([0.1, 0.95, 1.0]), torch.tensor([False, True, True]))]
    [1, 2]
    """
    place = (confidence.double() * bins).ceil().long().sub(1).clamp(0, bins - 1)
    found = []
    for number in range(bins):
        inside = place == number
        if inside.any():
            mean = float(confidence[inside].double().mean().clamp(0, 1))
            found.append(Bin(int(inside.sum()), mean, float(right[inside].double().mean())))
    return found


def calibration_error(bins: Sequence[Bin]) -> float:
    """ECE: Σ (count / n) · |accuracy − confidence| (Guo et al. 2017).

    >>> calibration_error([Bin(3, 0.75, 0.5), Bin(1, 1.0, 1.0)])
    0.1875
    """
    total = sum(each.count for each in bins)
    return sum(each.count * abs(each.accuracy - each.confidence) for each in bins) / total if total else 0.0


def fit_temperature(logits: Tensor, truth: Tensor) -> float:
    """T that minimises the cross-entropy of softmax(logits / T).

    That is convex in 1/T, so the sign of its slope, Σ_i (E_p[z_i] − z_i,y), is followed by halving.
    """
    z = logits.double()
    own = z.gather(1, truth.view(-1, 1)).squeeze(1)
    low, high = log(1 / HOTTEST), log(1 / COLDEST)  # of 1/T
    for _ in range(_STEPS):
        middle = (low + high) / 2
        chances = (z * exp(middle)).softmax(1)
        slope = (torch.where(chances > 0, chances * z, 0.0).sum(1) - own).sum()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return exp(-(low + high) / 2)
