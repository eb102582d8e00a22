"""Loss surfaces as a picture: curves of all runs together, a map of each."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from esacl.errors import ConfigError
from esacl.files import write_atomic
from esacl.landscape.measure import Landscape

FORMATS = ("png", "svg", "pdf")
COLOURS = ("#0b6e4f", "#c8553d", "#3d5a98", "#8a6d1d", "#7b3f8c")


def labels(found: Sequence[Landscape]) -> list[str]:
    """What tells runs apart: method and seed, and their directories where that is not enough."""
    names = [f"{each.method}, seed {each.seed}" for each in found]
    return [name if names.count(name) == 1 else f"{name} ({each.run})" for name, each in zip(names, found)]


def draw(found: Sequence[Landscape], path: Path) -> None:
    """Write a picture of one run or several."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ConfigError(f"a picture is written as {', '.join(FORMATS)}, but {path.name!r} was asked for.")
    columns = max(2, len(found))
    figure = Figure(figsize=(4.6 * columns, 8.2), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2 * columns)
    way = figure.add_subplot(grid[0, :columns])
    beside = figure.add_subplot(grid[0, columns:])
    names = [name.replace("$", r"\$") for name in labels(found)]  # no formula
    for each, name, colour in zip(found, names, _colours(len(found))):
        way.plot(each.lengths, each.to_pruned, color=colour, label=name)
        way.plot([0, 1], [each.loss, each.pruned_loss], "o", color=colour, fillstyle="none")
        way.plot([1], [each.pruned_loss], "o", color=colour)
        beside.plot(each.widths, each.sideways, color=colour, label=f"{name}: sharpness {each.sharpness:.3g}")
    _label(way, "towards the pruned point (filled)", "share of the way", found)
    _label(beside, "a random direction", "in lengths of filters", found)
    levels = _levels(found)
    each_wide = 2 * columns // len(found)
    for place, (each, name) in enumerate(zip(found, names)):
        axes = figure.add_subplot(grid[1, place * each_wide : (place + 1) * each_wide])
        _map(axes, each, levels)
        axes.set_title(f"{each.stream}: {name}", loc="left", fontsize=11)
    held = BytesIO()
    figure.savefig(held, format=kind, dpi=150)
    write_atomic(path, held.getvalue())


def _colours(count: int) -> list[str]:
    return [COLOURS[place % len(COLOURS)] for place in range(count)]


def _label(axes: Axes, title: str, below: str, found: Sequence[Landscape]) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(below)
    axes.set_ylabel("loss")
    values = [value for each in found for value in (*each.to_pruned, *each.sideways)]
    if min(values) > 0 and max(values) > 20 * min(values):
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)


def _levels(found: Sequence[Landscape]) -> np.ndarray:
    """The same contours for all maps, closer together where the loss is small."""
    values = np.concatenate([np.array(each.plane).ravel() for each in found])
    low, high = max(1e-4, float(values.min())), max(2e-4, float(np.quantile(values, 0.95)))
    return np.geomspace(low, max(high, 1.01 * low), 14)


def _map(axes: Axes, each: Landscape, levels: np.ndarray) -> None:
    plane = np.clip(np.array(each.plane), levels[0], levels[-1])
    filled = axes.contourf(each.lengths, each.widths, plane, levels=levels, cmap="viridis_r", norm="log")
    axes.plot([0], [0], "o", color="white", markeredgecolor="black", label=f"θ: loss {each.loss:.3f}")
    pruned = f"pruned to {1 - each.sparsity:.0%}: loss {each.pruned_loss:.3f}"
    axes.plot([1], [0], "*", markersize=13, color="white", markeredgecolor="black", label=pruned)
    axes.set_xlabel("towards the pruned point")
    axes.set_ylabel("random direction")
    axes.legend(fontsize=8, loc="upper left")
    axes.figure.colorbar(filled, ax=axes, label="loss", format="%.2g")
