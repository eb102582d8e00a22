"""Whole channels: how much each one says, and which of them stay when a network may have so many weights."""

from bisect import bisect_left
from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from esacl.nets.connections import HEAD, connections
from esacl.nets.network import Network
from esacl.nets.widths import written
from esacl.types import Params


class Channels:
    """The channels of a network by group of units: those that layers add up are one, and stay or go together."""

    def __init__(self, net: Network, scope: str) -> None:
        self.net = net
        self.scope = scope
        self.inner = [one for one in connections(net.model) if one.writes != HEAD]
        self.weights = sum(net.sizes[name] for name in net.partition.needed())  # of the whole network
        held = {one.writes for one in self.inner if one.weight not in net.stored}  # layers that training leaves alone
        self._writers = {group: names for group, names in written(net.model).items() if group not in held}

    def scores(self) -> Params:
        """Of every channel of a group: the norm of its filters together with BatchNorm's scales and shifts."""
        return {
            group: torch.stack([_rows(self.net.stored[name]).square().sum(1) for name in names]).sum(0).sqrt()
            for group, names in self._writers.items()
        }

    def units(self) -> dict[str, int]:
        """Channels of each group that may lose some."""
        return {group: len(self.net.stored[names[0]]) for group, names in self._writers.items()}

    def kept(self, budget: int) -> dict[str, Tensor]:
        """The channels of each group that stay, such that at most so many weights do; at least one of each group."""
        scores = {group: score.detach().cpu().double() for group, score in self.scores().items()}
        ranks = self._ranks(scores)
        order = torch.cat(list(ranks.values())).sort().values
        needed = bisect_left(range(len(order)), -budget, key=lambda gone: -self._left(ranks, order, gone))
        limit = order[min(needed, len(order) - 1)]
        return {group: (rank >= limit).nonzero().squeeze(1) for group, rank in ranks.items()}

    def _ranks(self, scores: Params) -> Params:
        """Values by which all channels compete; the best of a group never goes.

        layer: the share of its group that is not better; adaptive: the square of the score over the sum of those of
        its group that are not smaller; global: the score itself.
        """
        ranks = {}
        for group, score in scores.items():
            order = score.sort(stable=True).indices
            if self.scope == "layer":
                rank = torch.empty_like(score)
                rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype) / len(score)
            elif self.scope == "adaptive":
                ordered = score[order].square()
                rank = torch.empty_like(score)
                rank[order] = ordered / ordered.flip(0).cumsum(0).flip(0).clamp(min=1e-300)
            else:
                rank = score.clone()
            rank[order[-1]] = torch.inf
            ranks[group] = rank
        return ranks

    def _left(self, ranks: Params, order: Tensor, gone: int) -> int:
        """Weights of the network without all channels that rank below that one of the order."""
        return self.size({group: int((rank >= order[gone]).sum()) for group, rank in ranks.items()})

    def size(self, widths: Mapping[str, int]) -> int:
        """Weights of the network at these widths."""
        stored, known = self.net.stored, {one.weight for one in self.inner}
        found = sum(stored[name].numel() for name in self.net.partition.prunable if name not in known)
        for one in self.inner:
            if one.weight in stored:
                rows, columns, *kernel = stored[one.weight].shape
                columns = one.columns(widths[one.reads]) if one.reads in widths else columns
                found += widths.get(one.writes, rows) * columns * prod(kernel)
        return found

    def shrinking(self, kept: Mapping[str, Tensor], factor: float) -> Params:
        """What a step multiplies the other channels by: BatchNorm's scale and shift, or filters without BatchNorm."""
        found = {}
        for one in self.inner:
            if one.writes not in kept or len(kept[one.writes]) == len(self.net.stored[one.weight]):
                continue
            silent = (one.norm or one.layer, *one.later)
            for name in self._writers[one.writes]:
                if name.rpartition(".")[0] in silent:
                    value = self.net.stored[name].detach()
                    factors = torch.full_like(value, factor)
                    factors[kept[one.writes].to(value.device)] = 1.0
                    found[name] = factors
        return found


def _rows(value: Tensor) -> Tensor:
    """A row for each channel."""
    return value.detach().reshape(len(value), -1)
