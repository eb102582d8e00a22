"""What one run cost: operations counted in three ways, wall time, memory."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from esacl.report.figures.chart import Chart, Key
from esacl.report.figures.svg import FG, GRID, MUTED, WIDTH, Margins, canvas, colour, house_style
from esacl.report.record import RunRecord
from esacl.report.units import bytes_, flops, seconds

_ROW = 54  # pixels for a bar with its heading
_INKS = (colour(0), colour(1), colour(4), MUTED)
FLOPS = {
    "executed": (colour(0), "what the hardware did"),
    "sparse": (colour(2), "zeros counted as free"),
    "paper": (colour(4), "the paper's formula"),
}
"""The ways in which operations are counted: colour and meaning."""


@house_style()
def flops_bars(record: RunRecord) -> Chart:
    """Training FLOPs as executed, with credit for zeros, and by the paper's formula."""
    counts = {name: getattr(record.flops, name) for name in FLOPS}
    most = max(counts.values()) or 1.0
    figure, axes = _rows(len(counts))
    for row, (name, count) in enumerate(counts.items()):
        ink, meaning = FLOPS[name]
        _heading(axes, row, name, flops(count), meaning)
        _bar(axes, row, [(count / most, ink)])
    label = "Training FLOPs: " + ", ".join(f"{name} {flops(count)}" for name, count in counts.items()) + "."
    caption = "Three different figures for the same training: compare like with like."
    return Chart("Training FLOPs", "flops", figure, axes, label, caption)


@house_style()
def time_bar(record: RunRecord) -> Chart:
    """Wall time by what it went into."""
    time = record.seconds
    parts = {"training": time.train, "evaluation": time.evaluate, "data": time.data, "other": time.other}
    figure, axes = _rows(1)
    _heading(axes, 0, "total", seconds(time.total))
    keys = _stack(axes, parts, seconds)
    label = ", ".join(f"{name} {seconds(length)}" for name, length in parts.items())
    caption = "Measured on the machine of this run, with whatever else it was doing."
    label = f"Wall time: {seconds(time.total)}, of which {label}."
    return Chart("Wall time", "time", figure, axes, label, caption, keys)


@house_style()
def memory_bars(record: RunRecord) -> Chart:
    """Footprint of training by what it holds, and the peak that was measured."""
    held, peak = record.footprint, record.peak_memory_bytes
    parts = {"parameters": held.parameters, "activations": held.activations, "gradients": held.gradients}
    figure, axes = _rows(1 if peak is None else 2)
    _heading(axes, 0, "footprint", bytes_(held.total), "computed")
    keys = _stack(axes, parts, bytes_)
    caption = "Footprint: what the network needs in a step."
    if peak is not None:
        share = min(1.0, held.total / (peak or 1))
        _heading(axes, 1, "peak", bytes_(peak), "measured")
        _bar(axes, 1, [(share, _INKS[0]), (1 - share, GRID)])
        caption += " Peak: that (in colour) and all else, on a scale of its own."
    label = ", ".join(f"{name} {bytes_(size)}" for name, size in parts.items())
    label = f"Memory: {label}; measured peak {bytes_(peak)}."
    return Chart("Memory", "memory", figure, axes, label, caption, keys)


def _rows(count: int) -> tuple[Figure, Axes]:
    """Axes whose vertical unit is a row with a bar and its heading."""
    figure, axes = canvas(WIDTH, count * _ROW, Margins(0, 0, 0, 0))
    axes.set(xlim=(0, 1), ylim=(count, 0))
    axes.set_axis_off()
    return figure, axes


def _heading(axes: Axes, row: int, name: str, value: str, meaning: str = "") -> None:
    """What a bar is, and its value at the far end, written above it."""
    axes.text(0, row + 0.34, name + (f" · {meaning}" if meaning else ""), color=MUTED, va="baseline")
    axes.text(1, row + 0.34, value, color=FG, ha="right", va="baseline", fontweight="bold")


def _stack(axes: Axes, parts: Mapping[str, float], show: Callable[[float], str]) -> tuple[Key, ...]:
    """The first bar, made of its parts; returns their legend."""
    total = sum(parts.values()) or 1.0
    _bar(axes, 0, [(size / total, ink) for size, ink in zip(parts.values(), _INKS)])
    return tuple(Key(name, ink, value=show(size)) for (name, size), ink in zip(parts.items(), _INKS))


def _bar(axes: Axes, row: int, parts: Sequence[tuple[float, str]]) -> None:
    """Shares of the full width, one after the other."""
    start = 0.0
    for share, ink in parts:
        axes.add_artist(Rectangle((start, row + 0.48), share, 0.3, facecolor=ink, edgecolor="none"))
        start += share
