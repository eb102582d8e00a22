"""Accuracy along a setting that the rows differ in, one line for each series."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from esacl.report.figures.axes import BARS, bars_told, level_axis, round_range_of, ticks
from esacl.report.figures.chart import Chart, Key, Spot
from esacl.report.figures.families import FAMILIES, family_of
from esacl.report.figures.svg import SERIES, WIDTH, canvas, colour, house_style
from esacl.report.metrics import METRICS
from esacl.report.record import Scenario
from esacl.report.rows import Row, Spread
from esacl.report.sweeps import Series, Sweep, series
from esacl.report.units import PERCENT

_Points = list[tuple[int, Row, Spread]]


@house_style()
def accuracy_along(rows: Sequence[Row], setting: Scenario, sweeps: Sequence[Sweep]) -> Chart | None:
    """Mean accuracy at each value, values at equal distances; None where no series has this setting."""
    sweep, found = sweeps[0], [one for sweep in sweeps for one in series(rows, sweep)]
    values = sorted({value for one in found for value, _ in one.points})
    drawn = [(one, points) for one in found if len(points := _points(one, values, setting)) > 1]
    if not drawn:
        return None
    name, keys = drawn[0][1][0][1].records[0].setting_name(setting), _keys([one for one, _ in drawn])
    everyone = [y for _, points in drawn for *_, y in points]
    figure, axes = canvas(WIDTH, 320)
    spots: list[Spot] = []
    for place, ((_, points), key) in enumerate(zip(drawn, keys)):
        shift = 0.12 * (place - (len(drawn) - 1) / 2) / len(drawn)
        _line(axes, points, key, shift)
        for at, row, y in points:
            text = f"{PERCENT(y.mean, y.std)} % at {sweep.name} {values[at]:g}"
            spots.append(Spot(row, at + shift, 100 * y.mean, text))
    axes.set_ylim(*round_range_of(everyone))
    axes.set_xlim(-0.3, len(values) - 0.7)
    axes.set_xticks(range(len(values)), labels=[f"{100 * v:g}" if sweep.percent else f"{v:g}" for v in values])
    axes.set_xlabel(f"{sweep.name} (%)" if sweep.percent else sweep.name)
    axes.yaxis.set_major_locator(ticks())
    level_axis(axes, "accuracy (%)")
    each = [f"{one.label}: {', '.join(PERCENT(y.mean) for *_, y in points)}" for one, points in drawn]
    label = f"{name} accuracy in percent along {sweep.name}. {'; '.join(each)}."
    caption = "All other settings stay the same along a line; values stand at equal distances. " + bars_told(everyone)
    title, slug = f"{name}: {sweep.name}", f"{sweep.slug}-sweep-{setting}"
    return Chart(title, slug, figure, axes, label, caption, keys, tuple(spots))


def _points(one: Series, values: Sequence[float], setting: Scenario) -> _Points:
    known = [(values.index(value), row, METRICS[setting].spread(row.records)) for value, row in one.points]
    return [(at, row, y) for at, row, y in known if y is not None]


def _line(axes: Axes, points: _Points, key: Key, shift: float) -> None:
    at, means = [at + shift for at, *_ in points], [100 * y.mean for *_, y in points]
    axes.errorbar(at, means, [100 * (y.std or 0) for *_, y in points], color=key.ink, **BARS)
    style: dict[str, Any] = {"markersize": 7, "linewidth": 1.8, "linestyle": (0, (4, 2)) if key.dashed else "-"}
    axes.plot(at, means, marker=key.marker, color=key.ink, **style)


def _keys(found: Sequence[Series]) -> tuple[Key, ...]:
    """The look of each family where it has one series only; else colours and markers in turn."""
    families = [family_of(one.points[0][1]) for one in found]
    if len(set(families)) == len(families):
        return tuple(Key(one.label, family.ink, family.marker) for one, family in zip(found, families))
    markers = [family.marker for family in FAMILIES]
    return tuple(
        Key(one.label, colour(place), markers[place % len(markers)], dashed=place >= SERIES)
        for place, one in enumerate(found)
    )
