"""NISPA in plain loops: activations unit by unit, the smallest set by trying, edges one by one."""

from collections.abc import Sequence
from math import cos, pi

from torch import Tensor


def share(phase: int, steps: int) -> float:
    """τ after a phase."""
    return (1 + cos(pi * phase / steps)) / 2


def smallest_set(activity: Sequence[float], held: Sequence[bool], tau: float) -> list[bool]:
    """Add the most active unit that is left until the share is reached."""
    chosen = list(held)
    total = sum(activity)
    while sum(a for a, c in zip(activity, chosen) if c) < tau * total and not all(chosen):
        best = None
        for unit, value in enumerate(activity):
            if not chosen[unit] and (best is None or value > activity[best]):
                best = unit
        assert best is not None
        chosen[best] = True
    return chosen


def mean_of_units(maps: Tensor) -> list[float]:
    """Mean over images and places of each unit of [images, units] or [images, units, height, width]."""
    means = []
    for unit in range(maps.shape[1]):
        values = [float(value) for image in maps for value in image[unit].flatten()]
        means.append(sum(values) / len(values))
    return means


def forbidden(live: Tensor, writes: Sequence[bool], reads: Sequence[bool]) -> list[tuple[int, int]]:
    """Live edges from a plastic into a stable unit."""
    edges = [(out, into) for out in range(live.shape[0]) for into in range(live.shape[1]) if live[out, into]]
    return [(out, into) for out, into in edges if writes[out] and not reads[into]]


def layer_sizes(shapes: dict[str, tuple[int, ...]], budget: int) -> dict[str, float]:
    """Weights in proportion to the sum of the dimensions; whatever a layer cannot take goes to the others."""
    sizes = dict.fromkeys(shapes, 0.0)
    left = float(budget)
    open_layers = list(shapes)
    while left > 1e-9 and open_layers:
        total = sum(sum(shapes[name]) for name in open_layers)
        tight = []
        for name in open_layers:
            count = 1
            for size in shapes[name]:
                count *= size
            if left * sum(shapes[name]) / total > count:
                tight.append((name, count))
        if not tight:
            for name in open_layers:
                sizes[name] = left * sum(shapes[name]) / total
            break
        for name, count in tight:
            sizes[name] = float(count)
            left -= count
            open_layers.remove(name)
    return sizes
