"""Bars from zero, by row: what training cost, and what each part of the method is worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from esacl.report.ablations import Ablation, AblationKind, ablations
from esacl.report.figures.axes import bars_told, named_rows, room_for
from esacl.report.figures.chart import Chart, Key, Spot
from esacl.report.figures.cost_plot import NAMED
from esacl.report.figures.run_cost import FLOPS
from esacl.report.figures.svg import FG, MUTED, WIDTH, Margins, canvas, colour, house_style
from esacl.report.metrics import METRICS
from esacl.report.record import Scenario
from esacl.report.rows import Row, Spread, spread
from esacl.report.units import PERCENT, Unit, shorten, unit_for

_WHOLE, _WITHOUT = colour(0), colour(4)
_LONGEST = 40  # characters of a heading


@dataclass(frozen=True, slots=True)
class _Bar:
    text: str
    row: Row
    value: Spread
    ink: str


_Groups = Sequence[tuple[str, Sequence[_Bar]]]


@house_style()
def flops_by_row(rows: Sequence[Row]) -> Chart | None:
    """Training FLOPs of each row, in the three ways they are counted; None for more rows than a page has room for."""
    if not 0 < len(rows) <= NAMED:
        return None
    groups = []
    for row in rows:
        means = {name: METRICS[f"flops_{name}"].spread(row.records) for name in FLOPS}
        bars = [_Bar(name, row, Spread(each.mean, None), FLOPS[name][0]) for name, each in means.items() if each]
        groups.append((row.label, bars))
    unit = unit_for("flops", [bar.value.mean for _, bars in groups for bar in bars])
    figure, axes, spots = _draw(groups, unit, line=20)
    axes.set_xlabel(f"training cost ({unit.name})")
    label = f"Training FLOPs in {unit.name}. {_told(groups, unit)}."
    keys = tuple(Key(f"{name}: {meaning}", ink, "s") for name, (ink, meaning) in FLOPS.items())
    caption = "Mean over seeds. Three different figures: compare like with like."
    return Chart("Training FLOPs", "training-flops", figure, axes, label, caption, keys, spots)


@house_style()
def ablation_bars(rows: Sequence[Row], setting: Scenario, kind: AblationKind) -> Chart | None:
    """Accuracy with all parts and without some; None where nothing has this setting."""
    found = ablations(rows, kind)
    groups = [(one.whole.label, bars) for one in found if len(bars := _variants(one, setting)) > 1]
    if not groups:
        return None
    name = found[0].whole.records[0].setting_name(setting)
    figure, axes, spots = _draw(groups, PERCENT, line=30)
    axes.set_xlabel(f"{name} accuracy (%)")
    changed = [
        f"{variant.row.label}: {', '.join(variant.also)}" for one in found for variant in one.variants if variant.also
    ]
    caption = f"{kind.meaning} {bars_told([bar.value for _, bars in groups for bar in bars])}"
    caption += f" Where more than the parts differs: {'; '.join(changed)}." if changed else ""
    keys = (Key("all parts", _WHOLE, "s"), Key("without some", _WITHOUT, "s"))
    label = f"{name} accuracy in percent. {_told(groups, PERCENT)}."
    title, slug = f"{name}: {kind.title.lower()}", f"{kind.slug}-ablation-{setting}"
    return Chart(title, slug, figure, axes, label, caption, keys, spots)


def _variants(one: Ablation, setting: Scenario) -> list[_Bar]:
    rows = [("all parts", one.whole), *((f"without {variant.without}", variant.row) for variant in one.variants)]
    known = [(text, row, spread([record.accuracy.of(setting) for record in row.records])) for text, row in rows]
    return [_Bar(text, row, y, _WHOLE if row is one.whole else _WITHOUT) for text, row, y in known if y is not None]


def _draw(groups: _Groups, unit: Unit, line: float) -> tuple[Figure, Axes, tuple[Spot, ...]]:
    """Bars below the heading of their group, `line` pixels each, with their values at the right."""
    everyone = [bar for _, bars in groups for bar in bars]
    names = [bar.text for bar in everyone]
    figure, axes = canvas(WIDTH, line * (len(names) + 1.2 * len(groups)) + 56, Margins(room_for(names), 92, 8, 48))
    places, spots, at = [], [], 0.0
    for heading, bars in groups:
        style: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "va": "center_baseline"}
        axes.annotate(shorten(heading, _LONGEST), (0, at), color=MUTED, fontsize=13, annotation_clip=False, **style)
        for bar in bars:
            at += 1
            size, text = bar.value.mean / unit.size, unit(bar.value.mean, bar.value.std)
            axes.barh(at, size, height=0.62, color=bar.ink, alpha=0.85)
            if bar.value.std is not None:
                axes.errorbar([size], [at], xerr=[bar.value.std / unit.size], fmt="none", color=FG, capsize=4)
            axes.annotate(text, (1, at), (10, 0), color=FG, textcoords="offset points", **style)
            spots.append(Spot(bar.row, size, at, f"{bar.text}, {text} {unit.name}"))
            places.append(at)
        at += 1.2
    top = max((bar.value.mean + (bar.value.std or 0)) / unit.size for bar in everyone)
    most = 100.0 if unit is PERCENT else float("inf")
    axes.set(xlim=(0, min(most, 1.1 * top) or 1), ylim=(at - 0.5, -0.6))
    named_rows(axes, names, places)
    return figure, axes, tuple(spots)


def _told(groups: _Groups, unit: Unit) -> str:
    return "; ".join(
        f"{heading}, {bar.text} {unit(bar.value.mean, bar.value.std)}" for heading, bars in groups for bar in bars
    )
