"""Accuracy along a setting that the grid moves, one line for each series."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from esacl.report.figures.accuracy import round_range
from esacl.report.figures.svg import SERIES, WIDTH, canvas, colour, house_style
from esacl.report.groups import Spread, bars_told
from esacl.report.record import Setting
from esacl.report.sheet import Line
from esacl.report.study.chart import Chart, Sign, Spot
from esacl.report.study.families import FAMILIES, family_of
from esacl.report.study.measures import accuracy_of
from esacl.report.study.sweeps import Series, Sweep
from esacl.report.units import scale_for

_SHARE = scale_for("share", [])
Course = list[tuple[int, Line, Spread]]


def accuracy_along(found: Sequence[Series], sweep: Sweep, setting: Setting) -> Chart | None:
    """Mean accuracy at each value, values at equal distances; None where no series has this setting."""
    values = sorted({value for one in found for value, _ in one.points})
    drawn = [(one, course) for one in found if len(course := _course(one, values, setting)) > 1]
    if not drawn:
        return None
    name, signs = drawn[0][1][0][1].records[0].setting_name(setting), _signs([one for one, _ in drawn])
    with house_style():
        figure, axes = canvas(WIDTH, 320)
        shifts = [0.12 * (place - (len(drawn) - 1) / 2) / len(drawn) for place in range(len(drawn))]
        for (_, course), sign, shift in zip(drawn, signs, shifts):
            _line(axes, course, sign, shift)
        ends = [100 * (y.mean + sign * (y.std or 0)) for _, course in drawn for *_, y in course for sign in (-1, 1)]
        axes.set_ylim(*round_range([min(100.0, max(0.0, end)) for end in ends]))
        axes.set_xlim(-0.3, len(values) - 0.7)
        axes.set_xticks(range(len(values)), labels=[f"{100 * v:g}" if sweep.percent else f"{v:g}" for v in values])
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=(1, 2, 5, 10)))
        axes.set(xlabel=f"{sweep.name} (%)" if sweep.percent else sweep.name, ylabel="accuracy (%)")
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="x")
    each = [f"{one.label}: {', '.join(_SHARE(y.mean) for *_, y in course)}" for one, course in drawn]
    label = f"{name} accuracy in percent along {sweep.name}. {'; '.join(each)}."
    caption = "All other settings stay the same along a line; values stand at equal distances. "
    caption += bars_told([y for _, course in drawn for *_, y in course])
    spots = tuple(
        Spot(line, at + shift, 100 * y.mean, f"{_SHARE(y.mean, y.std)} % at {sweep.name} {values[at]:g}")
        for (_, course), shift in zip(drawn, shifts)
        for at, line, y in course
    )
    title = f"{name}: {sweep.name}"
    return Chart(title, f"{sweep.slug}-sweep-{setting}", figure, axes, label, caption, signs, spots)


def _course(one: Series, values: Sequence[float], setting: Setting) -> Course:
    known = [(values.index(value), line, accuracy_of(line, setting)) for value, line in one.points]
    return [(at, line, y) for at, line, y in known if y is not None]


def _line(axes: Axes, course: Course, sign: Sign, shift: float) -> None:
    at, means = [at + shift for at, *_ in course], [100 * y.mean for *_, y in course]
    errors = [100 * (y.std or 0) for *_, y in course]
    axes.errorbar(at, means, errors, fmt="none", color=sign.ink, elinewidth=1.3, capsize=3, alpha=0.55)
    look: dict[str, Any] = {"markersize": 7, "linewidth": 1.8, "linestyle": (0, (4, 2)) if sign.dashed else "-"}
    axes.plot(at, means, marker=sign.marker, color=sign.ink, **look)


def _signs(found: Sequence[Series]) -> tuple[Sign, ...]:
    """The look of each family where it has one series only; else colours and markers in turn."""
    families = [family_of(one.points[0][1].records[0]) for one in found]
    if len(set(families)) == len(families):
        return tuple(Sign(one.label, family.ink, family.marker) for one, family in zip(found, families))
    markers = [family.marker for family in FAMILIES]
    return tuple(
        Sign(one.label, colour(place), markers[place % len(markers)], dashed=place >= SERIES)
        for place, one in enumerate(found)
    )
