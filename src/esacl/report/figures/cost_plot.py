"""Accuracy over what it costs: a point for each row, with its name beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from esacl.report.figures.axes import BARS, bars_told, round_range_of, ticks
from esacl.report.figures.chart import Chart, Spot
from esacl.report.figures.families import family_keys, family_of
from esacl.report.figures.labels import Box, Point, nearest_edge, place, side_by_side
from esacl.report.figures.svg import CARD, FG, MUTED, PHONE, WIDTH, Margins, canvas, house_style
from esacl.report.metrics import METRICS
from esacl.report.record import Scenario
from esacl.report.rows import Row, Spread
from esacl.report.units import PERCENT, Unit, shorten, unit_for

MOST_NAMES = 30
"""Rows whose names have room in one plot."""

NAMED = 12
"""Where there are more, this many of the best are named."""

_FONT, _WIDE = 12, 0.6  # pixels of a letter's height, and its width relative to that
_LONGEST = 26  # characters of a name


@dataclass(frozen=True, slots=True)
class Cost:
    """A metric that accuracy is held against."""

    key: str
    name: str
    slug: str
    about: str


COSTS = (
    Cost("capacity", "capacity", "capacity", "What must be stored, by the paper's formula."),
    Cost("flops_executed", "executed FLOPs", "flops", "What the hardware did in training."),
    Cost(
        "seconds_train",
        "wall time",
        "time",
        "Training alone, on the machine of the run, with whatever else it was doing.",
    ),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """A row in the plane of cost and accuracy, each with its spread over the seeds."""

    row: Row
    x: Spread
    y: Spread


def dots(rows: Sequence[Row], setting: Scenario, cost: Cost) -> list[Dot]:
    """Every row that has an accuracy in this setting."""
    of_cost, of_score = METRICS[cost.key], METRICS[setting]
    found = [(row, of_cost.spread(row.records), of_score.spread(row.records)) for row in rows]
    return [Dot(row, x, y) for row, x, y in found if x is not None and y is not None]


def front(found: Sequence[Dot]) -> list[Dot]:
    """The rows that no other is both better and cheaper than, the cheapest first; of those that learn in turn."""
    best: list[Dot] = []
    for dot in sorted((dot for dot in found if not dot.row.joint), key=lambda dot: (dot.x.mean, -dot.y.mean)):
        if not best or dot.y.mean > best[-1].y.mean:
            best.append(dot)
    return best


@house_style()
def accuracy_over(rows: Sequence[Row], setting: Scenario, cost: Cost) -> Chart | None:
    """Every row by its cost and its accuracy at the end; None where no row has one."""
    found = dots(rows, setting, cost)
    if not found:
        return None
    name = found[0].row.records[0].setting_name(setting)
    unit = unit_for(METRICS[cost.key].kind, [dot.x.mean for dot in found])
    figure, axes = canvas(WIDTH, 330 + 5 * min(len(found), MOST_NAMES), Margins(right=16, top=16))
    low, high = round_range_of([dot.y for dot in found])
    axes.set_ylim(low, high + 0.02 * (high - low))
    axes.yaxis.set_major_locator(ticks())
    axes.spines["left"].set_visible(False)
    logarithmic = _costs(axes, [dot.x.mean / unit.size for dot in found], unit)
    places, moved = _places(axes, found, unit)
    _draw(axes, found, places, unit)
    ahead = front(found)
    at = {id(dot): place for dot, place in zip(found, places)}
    edge = [at[id(dot)] for dot in ahead]
    axes.plot([x for x, _ in edge], [y for _, y in edge], color=MUTED, linestyle="--", linewidth=1.2, zorder=1)
    axes.set_xlabel(f"{cost.name} ({unit.name}{', logarithmic' if logarithmic else ''})")
    axes.set_ylabel("accuracy (%)")
    best = sorted(range(len(found)), key=lambda n: -found[n].y.mean)
    named = set(best[: len(found) if len(found) <= MOST_NAMES else NAMED])
    unnamed = len(found) - _names(axes, found, places, named)
    top = found[best[0]]
    label = f"{name} accuracy over {cost.name}, {len(found)} rows. Highest: {top.row.label}, {_told(top, unit)}."
    caption = f"{cost.about} Better is higher and further left. {bars_told([dot.y for dot in found])}"
    caption += " The dashed line is the frontier: no row is better and cheaper." if len(ahead) > 1 else ""
    caption += " The axis does not start at zero." if low > 0 else ""
    caption += " Points that would hide another stand a little to its side." if moved else ""
    caption += f" {unnamed} points have no name for want of room: hover or tap." if unnamed else ""
    spots = tuple(Spot(dot.row, *at, _told(dot, unit)) for dot, at in zip(found, places))
    title, slug = f"{name}: accuracy over {cost.name}", f"accuracy-over-{cost.slug}-{setting}"
    keys = family_keys(dot.row for dot in found)
    return Chart(title, slug, figure, axes, label, caption, keys, spots, least_width=PHONE)


def _told(dot: Dot, unit: Unit) -> str:
    return f"{PERCENT(dot.y.mean, dot.y.std)} % at {unit(dot.x.mean, dot.x.std or None)} {unit.name}"


def _costs(axes: Axes, values: Sequence[float], unit: Unit) -> bool:
    """From zero, or by powers where the largest is far above the least; returns which."""
    least, most = min(values), max(values)
    if unit is PERCENT:
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
        axes.xaxis.set_major_locator(ticks())
    return False


def _places(axes: Axes, found: Sequence[Dot], unit: Unit) -> tuple[list[Point], bool]:
    """Where the points stand, and whether any had to step aside."""
    exact = [(dot.x.mean / unit.size, 100 * dot.y.mean) for dot in found]
    pixels = [(float(x), float(y)) for x, y in axes.transData.transform(exact)]
    shown = side_by_side(pixels, apart=8)
    places = [(float(x), float(y)) for x, y in axes.transData.inverted().transform(shown)]
    return places, shown != pixels


def _draw(axes: Axes, found: Sequence[Dot], places: Sequence[Point], unit: Unit) -> None:
    """The points of each family with their bars."""
    families = [family_of(dot.row) for dot in found]
    for family in dict.fromkeys(families):
        members = [(dot, at) for dot, at, mine in zip(found, places, families) if mine is family]
        x, y = [at[0] for _, at in members], [at[1] for _, at in members]
        x_error = [(dot.x.std or 0) / unit.size for dot, _ in members]
        y_error = [100 * (dot.y.std or 0) for dot, _ in members]
        axes.errorbar(x, y, y_error, x_error, color=family.ink, **BARS)
        style: dict[str, Any] = {"linestyle": "", "markersize": 8, "zorder": 3, "clip_on": False, "alpha": 0.9}
        axes.plot(x, y, family.marker, color=family.ink, markeredgecolor=CARD, markeredgewidth=0.7, **style)


def _names(axes: Axes, found: Sequence[Dot], places: Sequence[Point], named: set[int]) -> int:
    """Write names where there is room, with a thin line to points that are further away; returns how many."""
    to_pixels, to_data = axes.transData.transform, axes.transData.inverted().transform
    points = [(float(x), float(y)) for x, y in to_pixels(places)]
    texts = [shorten(dot.row.label, _LONGEST) if n in named else "" for n, dot in enumerate(found)]
    sizes = [(_FONT * _WIDE * len(text), _FONT + 2.0 if text else 0.0) for text in texts]
    left, bottom, right, top = axes.bbox.extents
    room = (left + 2, bottom + 2, right + 14, top + 12)
    boxes = place(points, sizes, room, [_bar(axes, dot, at) for dot, at in zip(found, places)])
    for point, text, box in zip(points, texts, boxes):
        if box is None or not text:
            continue
        side = "left" if box[0] > point[0] else "right" if box[2] < point[0] else "center"
        x = {"left": box[0], "right": box[2], "center": (box[0] + box[2]) / 2}[side]
        style: dict[str, Any] = {"fontsize": _FONT, "color": FG, "ha": side, "va": "center_baseline", "zorder": 5}
        at_x, at_y = to_data((x, (box[1] + box[3]) / 2))
        axes.text(at_x, at_y, text, **style)
        edge = nearest_edge(box, point)
        if abs(edge[0] - point[0]) + abs(edge[1] - point[1]) > 14:
            ends = to_data([point, edge])
            axes.plot(ends[:, 0], ends[:, 1], color=MUTED, linewidth=0.8, alpha=0.7, zorder=1)
    return sum(box is not None for n, box in enumerate(boxes) if n in named)


def _bar(axes: Axes, dot: Dot, at: Point) -> Box:
    """The pixels of the vertical bar of a point."""
    half = 100 * (dot.y.std or 0)
    (x, low), (_, high) = axes.transData.transform([(at[0], at[1] - half), (at[0], at[1] + half)])
    return float(x) - 1, float(low), float(x) + 1, float(high)
