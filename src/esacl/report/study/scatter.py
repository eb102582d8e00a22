"""Accuracy over what it costs: a point for each line, with its name beside it."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from esacl.report.figures.accuracy import round_range
from esacl.report.figures.svg import FG, MUTED, WIDTH, Margins, canvas, house_style
from esacl.report.record import SETTING_NAMES, Setting
from esacl.report.study.chart import Chart, Spot, families_shown
from esacl.report.study.families import FAMILIES, family_of
from esacl.report.study.labels import Point, nearest_edge, place
from esacl.report.study.measures import Cost, Dot
from esacl.report.units import Scale, scale_for, shorten

MOST_NAMES = 30
"""Lines whose names have room in one plot."""

NAMED = 12
"""Where there are more, this many of the best are named."""

_FONT, _WIDE = 12, 0.6  # pixels of a letter's height, and its width relative to that
_LONGEST = 26  # characters of a name
_SHARE = scale_for("share", [])


def accuracy_over(found: Sequence[Dot], setting: Setting, cost: Cost) -> Chart:
    """Every line by its cost and its accuracy at the end; bars are standard deviations over the seeds."""
    name = SETTING_NAMES[setting]
    scale = scale_for(cost.kind, [dot.x.mean for dot in found])
    with house_style():
        figure, axes = canvas(WIDTH, 330 + 5 * min(len(found), MOST_NAMES), Margins(right=16, top=16))
        for dot in found:
            family = family_of(dot.line.records[0])
            x_error, y_error = (dot.x.std or 0) / scale.size, 100 * (dot.y.std or 0)
            look: dict[str, Any] = {"color": family.ink, "elinewidth": 1.2, "capsize": 2.5, "zorder": 2, "fmt": "none"}
            axes.errorbar([dot.x.mean / scale.size], [100 * dot.y.mean], [y_error], [x_error], alpha=0.55, **look)
            dots: dict[str, Any] = {"linestyle": "", "markersize": 8, "zorder": 3, "clip_on": False, "alpha": 0.9}
            axes.plot([dot.x.mean / scale.size], [100 * dot.y.mean], family.marker, color=family.ink, **dots)
        low = _accuracies(axes, found)
        logarithmic = _costs(axes, [dot.x.mean / scale.size for dot in found], cost)
        axes.set_xlabel(f"{cost.name} ({scale.unit}{', logarithmic' if logarithmic else ''})")
        axes.set_ylabel("accuracy (%)")
        named = sorted(found, key=lambda dot: -dot.y.mean)[: len(found) if len(found) <= MOST_NAMES else NAMED]
        unnamed = len(found) - _names(axes, named, scale)
    best = max(found, key=lambda dot: dot.y.mean)
    label = f"{name} accuracy over {cost.name}, {len(found)} rows. Highest: {best.line.label}, {_told(best, scale)}."
    caption = f"{cost.about} Better is higher and further left; bars are ± one standard deviation over the seeds."
    caption += " The axis does not start at zero." if low > 0 else ""
    caption += f" {unnamed} points have no name for want of room: hover or tap." if unnamed else ""
    spots = tuple(Spot(dot.line, dot.x.mean / scale.size, 100 * dot.y.mean, _told(dot, scale)) for dot in found)
    signs = families_shown((family_of(dot.line.records[0]) for dot in found), FAMILIES)
    title, slug = f"{name}: accuracy over {cost.name}", f"accuracy-over-{cost.slug}-{setting}"
    return Chart(title, slug, figure, axes, label, caption, signs, spots, least_width=430)


def _told(dot: Dot, scale: Scale) -> str:
    return f"{_SHARE(dot.y.mean, dot.y.std)} % at {scale(dot.x.mean, dot.x.std)} {scale.unit}"


def _accuracies(axes: Axes, found: Sequence[Dot]) -> float:
    """Round limits around all points and their bars; returns the lower one."""
    ends = [100 * (dot.y.mean + sign * (dot.y.std or 0)) for dot in found for sign in (-1, 1)]
    low, high = round_range([min(100.0, max(0.0, end)) for end in ends])
    axes.set_ylim(low, high + 0.02 * (high - low))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=(1, 2, 5, 10)))
    axes.spines["left"].set_visible(False)
    return low


def _costs(axes: Axes, values: Sequence[float], cost: Cost) -> bool:
    """From zero, or by powers where the largest is far above the least; returns which."""
    least, most = min(values), max(values)
    if cost.kind == "share":
        axes.set_xlim(0, max(105.0, 1.05 * most))
    elif least > 0 and most / least > 15:
        axes.set_xscale("log")
        axes.set_xlim(least / 1.4, most * 1.4)
        steps = [step * 10.0**power for power in range(-9, 10) for step in (1, 2, 5)]
        axes.xaxis.set_major_locator(FixedLocator([step for step in steps if least / 1.4 <= step <= most * 1.4]))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        return True
    else:
        axes.set_xlim(0, 1.08 * most or 1)
    if cost.kind != "share":
        axes.xaxis.set_major_locator(MaxNLocator(7, steps=(1, 2, 5, 10)))
    return False


def _names(axes: Axes, found: Sequence[Dot], scale: Scale) -> int:
    """Write names where there is room, with a thin line to points that are further away; returns how many."""
    points: list[Point] = []
    for dot in found:
        x, y = axes.transData.transform((dot.x.mean / scale.size, 100 * dot.y.mean))
        points.append((float(x), float(y)))
    texts = [shorten(dot.line.label, _LONGEST) for dot in found]
    sizes = [(_FONT * _WIDE * len(text), _FONT + 2.0) for text in texts]
    inside = axes.bbox.extents
    boxes = place(points, sizes, (inside[0] + 2, inside[1] + 2, inside[2] + 14, inside[3] + 12))
    for point, text, box in zip(points, texts, boxes):
        if box is None:
            continue
        corner = axes.transData.inverted().transform((box[0], (box[1] + box[3]) / 2))
        axes.text(*corner, text, fontsize=_FONT, color=FG, va="center_baseline", zorder=5)
        edge = nearest_edge(box, point)
        if abs(edge[0] - point[0]) + abs(edge[1] - point[1]) > 14:
            ends = axes.transData.inverted().transform([point, edge])
            axes.plot(ends[:, 0], ends[:, 1], color=MUTED, linewidth=0.8, alpha=0.7, zorder=1)
    return sum(box is not None for box in boxes)
