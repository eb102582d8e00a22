"""Accuracy at the end: every seed as a point and the mean as a stroke, one line for each row."""

from collections.abc import Sequence
from typing import Any

from esacl.report.figures.axes import named_rows, room_for, round_range
from esacl.report.figures.chart import Chart, Spot
from esacl.report.figures.cost_plot import MOST_NAMES
from esacl.report.figures.families import family_keys, family_of
from esacl.report.figures.svg import CARD, FG, MUTED, WIDTH, Margins, canvas, house_style
from esacl.report.record import Scenario
from esacl.report.rows import Row, spread
from esacl.report.units import DASH, PERCENT, shorten

_LONGEST = 20  # characters of a name
_LINE = 34  # pixels


@house_style()
def final_accuracy(rows: Sequence[Row], setting: Scenario) -> Chart | None:
    """All rows, one without an accuracy in this setting with a dash; None where none has one, or they are too many."""
    if len(rows) > MOST_NAMES or all(record.accuracy.of(setting) is None for row in rows for record in row.records):
        return None
    name, names = rows[0].records[0].setting_name(setting), [shorten(row.label, _LONGEST) for row in rows]
    values = [[record.accuracy.of(setting) for record in row.records] for row in rows]
    found = [spread(seeds) for seeds in values]
    texts = [PERCENT(each.mean, each.std) if each else DASH for each in found]
    low, high = round_range([100 * value for seeds in values for value in seeds if value is not None])
    figure, axes = canvas(WIDTH, _LINE * len(rows) + 56, Margins(room_for(names), 92, 8, 48))
    end: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    for at, (row, seeds, text) in enumerate(zip(rows, values, texts)):
        family, points = family_of(row), [100 * value for value in seeds if value is not None]
        style: dict[str, Any] = {"linestyle": "", "markersize": 9, "alpha": 0.75, "zorder": 3, "clip_on": False}
        axes.plot(points, [at] * len(points), family.marker, color=family.ink, markeredgecolor=CARD, **style)
        if len(points) > 1:
            mean = sum(points) / len(points)
            axes.plot([mean] * 2, [at - 0.3, at + 0.3], color=FG, linewidth=2.5, zorder=4, clip_on=False)
        axes.annotate(text, (1, at), (14, 0), color=FG if points else MUTED, va="center_baseline", **end)
    axes.set(xlim=(low, high), ylim=(len(rows) - 0.5, -0.5), xlabel=f"{name} accuracy at the end (%)")
    named_rows(axes, names, range(len(rows)))
    caption = ["Each point is one run"]
    if any(len(row.records) > 1 for row in rows):
        caption.append("the stroke is the mean over seeds, written with ± their standard deviation")
    if low > 0:
        caption.append("the axis does not start at zero")
    label = "; ".join(f"{row.label} {text}" for row, text in zip(rows, texts))
    label = f"Final {name} accuracy in percent: {label}."
    spots = tuple(
        Spot(row, 100 * each.mean, at, f"{text} %, mean of {len(row.records)}")
        for at, (row, each, text) in enumerate(zip(rows, found, texts))
        if each is not None
    )
    title, told = f"{name}: final accuracy", "; ".join(caption) + "."
    return Chart(title, f"final-{setting}", figure, axes, label, told, family_keys(rows), spots)
