"""CO2L's two losses as double loops over scalars that autograd can follow."""

import torch
from torch import Tensor


def similarity(one: Tensor, other: Tensor) -> Tensor:
    """Scalar product."""
    total = torch.zeros((), dtype=one.dtype)
    for a, b in zip(one.unbind(), other.unbind()):
        total = total + a * b
    return total


def chances(points: Tensor, i: int, temperature: float) -> dict[int, Tensor]:
    """How likely point i is to choose each other point: Eq. 12."""
    weights = {k: (similarity(points[i], points[k]) / temperature).exp() for k in range(len(points)) if k != i}
    total = torch.stack(list(weights.values())).sum()
    return {k: weight / total for k, weight in weights.items()}


def contrastive(points: Tensor, labels: list[int], temperature: float) -> list[Tensor]:
    """What each point pays as an anchor: a summand of Eq. 10, zero for a point without positives."""
    losses = []
    for i in range(len(points)):
        own = chances(points, i, temperature)
        positives = [k for k in own if labels[k] == labels[i]]
        loss = 0 * points.sum()
        for k in positives:
            loss = loss - own[k].log() / len(positives)
        losses.append(loss)
    return losses


def relation(past: Tensor, present: Tensor, past_temperature: float, present_temperature: float) -> Tensor:
    """Eq. 13, as a mean over the points."""
    loss = torch.zeros((), dtype=present.dtype)
    for i in range(len(present)):
        before, now = chances(past, i, past_temperature), chances(present, i, present_temperature)
        for k in before:
            loss = loss - before[k] * now[k].log() / len(present)
    return loss


def asymmetric(points: Tensor, labels: list[int], anchors: list[bool], temperature: float) -> Tensor:
    """Eq. 10 over the number of points: only anchors pay."""
    losses = contrastive(points, labels, temperature)
    paid = [loss for loss, anchor in zip(losses, anchors) if anchor]
    return torch.stack(paid).sum() / len(points) if paid else torch.zeros((), dtype=points.dtype)
