"""How far a model is to be believed, and how good it was after each task that it learnt."""

from collections.abc import Mapping, Sequence
from math import ceil, nan, sqrt
from typing import Any

from matplotlib.patches import Rectangle

from esacl.metrics.calibration import BINS, Bin
from esacl.report.figures.axes import accuracy_axis, level_axis, stage_axis
from esacl.report.figures.chart import Chart, Key
from esacl.report.figures.svg import FG, WIDTH, canvas, colour, house_style
from esacl.report.units import percent

_INK = colour(0)
_LINES = {"old": ("classes known before", colour(0), 4.0), "new": ("new classes", colour(1), 1.8)}


@house_style()
def reliability_plot(bins: Sequence[Bin], error: float) -> Chart:
    """Accuracy of the answers of each confidence, beside the line on which both are the same."""
    figure, axes = canvas(WIDTH, 320)
    most = max(each.count for each in bins)
    for each in bins:
        left = 100 * (min(BINS, max(1, ceil(each.confidence * BINS - 1e-9))) - 1) / BINS
        strength = 0.2 + 0.7 * sqrt(each.count / most)
        bar = Rectangle((left + 0.4, 0), 100 / BINS - 0.8, 100 * each.accuracy, facecolor=_INK, alpha=strength)
        axes.add_artist(bar)
    axes.plot([0, 100], [0, 100], color=FG, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set(xlim=(0, 100), ylim=(0, 103), xlabel="confidence of the answer (%)")
    axes.set_yticks(range(0, 101, 20))
    level_axis(axes, "right answers (%)")
    each_told = ", ".join(f"{percent(each.accuracy)} right at {percent(each.confidence)}" for each in bins)
    label = f"Reliability: {each_told}. Calibration error {percent(error)}."
    caption = "Below the line the model is surer than it should be. A strong colour stands for many answers."
    keys = (Key("right answers", _INK), Key("as it should be", FG, dashed=True))
    return Chart("Confidence and accuracy", "reliability", figure, axes, label, caption, keys)


@house_style()
def history_plot(history: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Right answers on held-out examples after each task, of old and of new classes; None with fewer than two tasks."""
    measured = [entry for entry in history if entry["old"][1] or entry["new"][1]]
    if len(measured) < 2:
        return None
    first, last = measured[0]["task"], measured[-1]["task"]
    figure, axes = canvas(WIDTH, 290)
    told, drawn = [], []
    for name, (words, ink, width) in _LINES.items():
        shares = {entry["task"]: 100 * entry[name][0] / entry[name][1] for entry in measured if entry[name][1]}
        if shares:
            values = [shares.get(task, nan) for task in range(first, last + 1)]
            axes.plot(range(first - 1, last), values, color=ink, marker="o", markersize=3 + width, linewidth=width)
            drawn += list(shares.values())
            told.append(f"{words}: " + ", ".join(f"{share:.1f}% after task {task}" for task, share in shares.items()))
    accuracy_axis(axes, drawn)
    stage_axis(axes, last, first - 1)
    axes.set_xlabel("after task")
    fallen = [str(entry["task"]) for entry in measured if entry["fell"]]
    caption = "Measured on examples that were held out of training when a class was first learnt, or given to judge by."
    if fallen:
        caption += f" Old classes fell by more than chance explains at task {', '.join(fallen)}."
    keys = tuple(Key(words, ink) for words, ink, _ in _LINES.values())
    return Chart("After each task", "history", figure, axes, f"Right answers. {'; '.join(told)}.", caption, keys)
