"""What each part of the method is worth: the whole beside its variants, as bars."""

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from esacl.report.figures.svg import FG, MUTED, WIDTH, Margins, canvas, colour, house_style
from esacl.report.groups import Spread, bars_told
from esacl.report.record import Setting
from esacl.report.sheet import Line
from esacl.report.study.ablations import Ablation, Kind
from esacl.report.study.chart import Chart, Sign, Spot
from esacl.report.study.measures import accuracy_of
from esacl.report.units import scale_for, shorten

_SHARE = scale_for("share", [])
_ROW = 30  # pixels
_WHOLE, _WITHOUT = colour(0), colour(4)
_LONGEST = 40


def ablation_bars(found: Sequence[Ablation], kind: Kind, setting: Setting) -> Chart | None:
    """Accuracy with all parts and without some; None where nothing has this setting."""
    groups = [(one, rows) for one in found if len(rows := _rows(one, setting)) > 1]
    if not groups:
        return None
    name = found[0].whole.records[0].setting_name(setting)
    height = _ROW * sum(len(rows) + 1.2 for _, rows in groups)
    top = max(100 * (y.mean + (y.std or 0)) for _, rows in groups for _, _, y in rows)
    spots, told = [], []
    with house_style():
        left = 14 + 8.2 * max(len(text) for _, rows in groups for text, *_ in rows)
        figure, axes = canvas(WIDTH, height + 56, Margins(left, 86, 8, 48))
        at, ticks = 0.0, []
        for one, rows in groups:
            heading: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "va": "center_baseline", "fontsize": 13}
            axes.annotate(shorten(one.whole.label, _LONGEST), (0, at), color=MUTED, annotation_clip=False, **heading)
            for text, line, y in rows:
                at += 1
                ink = _WHOLE if line is one.whole else _WITHOUT
                axes.barh(at, 100 * y.mean, height=0.62, color=ink, alpha=0.85)
                bar: dict[str, Any] = {"fmt": "none", "color": FG, "elinewidth": 1.5, "capsize": 4}
                axes.errorbar([100 * y.mean], [at], xerr=[100 * (y.std or 0)], **bar)
                end: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
                axes.annotate(_SHARE(y.mean, y.std), (1, at), (10, 0), color=FG, va="center_baseline", **end)
                spots.append(Spot(line, 100 * y.mean, at, f"{text}, {_SHARE(y.mean, y.std)} %"))
                told.append(f"{one.whole.label}, {text} {_SHARE(y.mean, y.std)}")
                ticks.append((at, text))
            at += 1.2
        axes.set(xlim=(0, min(100, 1.1 * top) or 1), ylim=(at - 0.5, -0.6), xlabel=f"{name} accuracy (%)")
        axes.set_yticks([tick for tick, _ in ticks], labels=[text for _, text in ticks])
        axes.tick_params(axis="y", labelcolor=FG)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
        axes.grid(visible=False, axis="y")
        axes.spines[:].set_visible(False)
    changed = [
        f"{variant.line.label}: {', '.join(variant.also)}" for one in found for variant in one.variants if variant.also
    ]
    caption = f"{kind.meaning} {bars_told([y for _, rows in groups for *_, y in rows])}"
    caption += f" Where more than the parts differs: {'; '.join(changed)}." if changed else ""
    signs = (Sign("all parts", _WHOLE, "s"), Sign("without some", _WITHOUT, "s"))
    label = f"{name} accuracy in percent. {'; '.join(told)}."
    return Chart(
        f"{name}: {kind.title.lower()}",
        f"{kind.slug}-ablation-{setting}",
        figure,
        axes,
        label,
        caption,
        signs,
        tuple(spots),
    )


def _rows(one: Ablation, setting: Setting) -> list[tuple[str, Line, Spread]]:
    rows = [("all parts", one.whole), *((f"without {variant.without}", variant.line) for variant in one.variants)]
    known = [(text, line, accuracy_of(line, setting)) for text, line in rows]
    return [(text, line, y) for text, line, y in known if y is not None]
