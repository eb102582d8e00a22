"""Naïve twin of channel pruning: channel after channel goes, the least telling first, and weights are counted anew."""

from collections.abc import Mapping, Sequence
from math import inf, sqrt

from torch import Tensor

Layer = tuple[str, str, str, str | None]  # layer, group that it reads, group that it writes, its BatchNorm
Channel = tuple[str, int]


def scores(stored: Mapping[str, Tensor], layers: Sequence[Layer]) -> dict[Channel, float]:
    """Root of the sum of squares of all that makes a channel: filters, biases, scales and shifts."""
    squares: dict[Channel, float] = {}
    for layer, _, group, norm in layers:
        for name in (f"{layer}.weight", f"{layer}.bias", f"{norm}.weight", f"{norm}.bias"):
            for number, row in enumerate(stored.get(name, [])):
                squares.setdefault((group, number), 0.0)
                squares[group, number] += sum(value**2 for value in row.flatten().tolist())
    return {channel: sqrt(square) for channel, square in squares.items()}


def kept(
    stored: Mapping[str, Tensor], layers: Sequence[Layer], budget: int, scope: str, image: str
) -> dict[str, list[int]]:
    """Channels that stay, by group."""
    found = scores(stored, layers)
    left = {channel: rank(channel, found, scope) for channel in found}
    while weights(stored, layers, left, image) > budget and min(left.values()) < inf:
        del left[min(left, key=lambda channel: left[channel])]
    return {
        group: sorted(number for other, number in left if other == group) for group in {group for group, _ in found}
    }


def rank(channel: Channel, found: Mapping[Channel, float], scope: str) -> float:
    """When a channel goes; never, for the best of a group."""
    own = [score for (group, _), score in found.items() if group == channel[0]]
    if found[channel] == max(own):
        return inf
    if scope == "layer":
        return sum(score <= found[channel] for score in own) / len(own)
    if scope == "adaptive":
        return found[channel] ** 2 / sum(score**2 for score in own if score >= found[channel])
    return found[channel]


def weights(stored: Mapping[str, Tensor], layers: Sequence[Layer], left: Mapping[Channel, float], image: str) -> int:
    """Weights between channels that are left."""
    total = 0
    for layer, reads, writes, _ in layers:
        weight = stored[f"{layer}.weight"]
        columns = weight.shape[1] if reads == image else sum(group == reads for group, _ in left)
        total += sum(group == writes for group, _ in left) * columns * weight[0, 0].numel()
    return total
