"""Edges between units: how many a layer has at the start, and where as many grow when some are dropped."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from esacl.types import Params


def edge_counts(shapes: Mapping[str, torch.Size], budget: int) -> dict[str, int]:
    """Edges of each layer such that `budget` weights are on them, or part of a kernel less.

    A layer's weights are in proportion to the sum of its dimensions (Erdős-Rényi kernels; Evci et al. 2020), up to all
    of them: small layers are denser. An edge of a convolution is a whole kernel.

    >>> edge_counts({"wide": torch.Size([8, 8]), "narrow": torch.Size([8, 2])}, 40)
    {'wide': 25, 'narrow': 15}
    """
    areas = {name: shape[2:].numel() for name, shape in shapes.items()}
    places = {name: shape[:2].numel() for name, shape in shapes.items()}
    wished = _wished(shapes, budget)
    counts = {name: int(wish / areas[name]) for name, wish in wished.items()}
    left = budget - sum(counts[name] * areas[name] for name in shapes)
    lacking = sorted(shapes, key=lambda name: counts[name] - wished[name] / areas[name])  # the most first
    for name, most in [*((name, 1) for name in lacking), *((name, budget) for name in lacking)]:
        more = min(left // areas[name], most, places[name] - counts[name])
        counts[name] += more
        left -= more * areas[name]
    return counts


def _wished(shapes: Mapping[str, torch.Size], budget: int) -> dict[str, float]:
    """Weights of each layer in proportion to its dimensions, where that is not more than it has."""
    full: dict[str, float] = {}
    while True:
        others = {name: sum(shape) for name, shape in shapes.items() if name not in full}
        scale = (budget - sum(full.values())) / max(1, sum(others.values()))
        over = {name: float(shapes[name].numel()) for name in others if scale * others[name] > shapes[name].numel()}
        if not over:
            return {name: full.get(name, scale * others.get(name, 0)) for name in shapes}
        full |= over


def scattered(allowed: Iterable[Tensor], count: int, draw: torch.Generator) -> list[Tensor]:
    """Masks of `count` places at random among those allowed in all blocks together; of all where there are fewer."""
    blocks = list(allowed)
    flat = torch.cat([block.flatten().cpu() for block in blocks])
    places = flat.nonzero().squeeze(1)
    chosen = torch.zeros_like(flat)
    chosen[places[torch.randperm(len(places), generator=draw)[:count]]] = True
    parts = torch.split(chosen, [block.numel() for block in blocks])
    return [part.view(block.shape).to(block.device) for part, block in zip(parts, blocks)]


def rewired(
    live: Params,
    areas: Mapping[str, int],
    budget: int,
    dropped: Params,
    growing: Sequence[Params],
    draw: torch.Generator,
) -> Params | None:
    """Masks without the dropped edges and with others instead, up to a budget of weights; None without room for them.

    `growing` are places for new edges, in order of preference. As many as a layer lost grow in the layer itself; what
    finds no room there goes to any other. Less than a kernel may be left over.
    """
    after = {name: mask & ~dropped[name] for name, mask in live.items()}
    for name, mask in live.items():
        lost = int((mask & dropped[name]).sum())
        after[name] |= scattered([growing[0][name] & ~after[name]], lost, draw)[0]
    left = budget - sum(int(mask.sum()) * areas[name] for name, mask in after.items())
    for places in growing:
        for area in sorted(set(areas.values()), reverse=True):
            names = [name for name in live if areas[name] == area]
            for name, mask in zip(names, scattered([places[n] & ~after[n] for n in names], left // area, draw)):
                after[name] |= mask
                left -= int(mask.sum()) * area
    return after if left < max(areas.values()) else None
