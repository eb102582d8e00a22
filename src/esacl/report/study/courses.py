"""How forgetting grows with the tasks: one line for each row, named at its end."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from esacl.report.figures.svg import FG, MUTED, WIDTH, Margins, canvas, house_style
from esacl.report.groups import bars_told
from esacl.report.record import Setting
from esacl.report.study.chart import Chart, Spot, families_shown
from esacl.report.study.families import FAMILIES, family_of
from esacl.report.study.labels import spread_out
from esacl.report.study.measures import Course
from esacl.report.study.scatter import MOST_NAMES, NAMED
from esacl.report.units import scale_for, shorten

_LONGEST, _FONT = 22, 12
_SHARE = scale_for("share", [])


def forgetting_over_tasks(found: Sequence[Course], setting: Setting) -> Chart:
    """Forgetting of the tasks so far, after each task from the second on."""
    name = found[0].line.records[0].setting_name(setting)
    ranked = sorted(found, key=lambda course: course.stages[-1].mean)
    named = ranked if len(found) <= MOST_NAMES else ranked[:NAMED]
    texts = [shorten(course.line.label, _LONGEST) for course in named]
    right = 18 + 0.58 * _FONT * max(map(len, texts))
    tasks = len(found[0].stages) + 1
    with house_style():
        height = max(330, 76 + (_FONT + 3) * len(named))
        figure, axes = canvas(WIDTH, height, Margins(right=right, top=16))
        shifts = [0.16 * (place / max(1, len(found) - 1) - 0.5) for place in range(len(found))]
        for course, shift in zip(found, shifts):
            _line(axes, course, shift)
        axes.set_xlim(1.8, tasks + 0.2)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=(1, 2, 5, 10)))
        axes.set(xlabel="after training task", ylabel="forgetting (%)")
        axes.grid(visible=False, axis="x")
        axes.spines["left"].set_visible(False)
        _names(axes, named, texts)
    best, worst = ranked[0], ranked[-1]
    ends = [f"{course.line.label} {_end(course)} %" for course in (best, worst)]
    label = f"{name} forgetting after each task, {len(found)} rows. At the end: least {ends[0]}, most {ends[1]}."
    caption = "How far the tasks so far fell from their best, on average; lower is better. Lines stand a little apart. "
    caption += bars_told([course.stages[-1] for course in found])
    caption += f" Named: the {NAMED} with the least at the end." if len(named) < len(found) else ""
    spots = tuple(
        Spot(course.line, task + shift, 100 * at.mean, f"{_SHARE(at.mean, at.std)} % after task {task}")
        for course, shift in zip(found, shifts)
        for task, at in enumerate(course.stages, start=2)
    )
    signs = families_shown((family_of(course.line.records[0]) for course in found), FAMILIES)
    title = f"{name}: forgetting over tasks"
    return Chart(title, f"forgetting-{setting}", figure, axes, label, caption, signs, spots, least_width=400)


def _line(axes: Axes, course: Course, shift: float) -> None:
    family = family_of(course.line.records[0])
    stages = [stage + 2 + shift for stage in range(len(course.stages))]
    means, errors = [100 * at.mean for at in course.stages], [100 * (at.std or 0) for at in course.stages]
    axes.errorbar(stages, means, errors, fmt="none", color=family.ink, elinewidth=1, capsize=2, alpha=0.4)
    look: dict[str, Any] = {"markersize": 5.5, "linewidth": 1.5, "alpha": 0.9, "clip_on": False}
    axes.plot(stages, means, marker=family.marker, color=family.ink, **look)


def _names(axes: Axes, named: Sequence[Course], texts: Sequence[str]) -> None:
    """At the right, each as near to the end of its line as the others allow."""
    ends = [float(axes.transData.transform((0, 100 * course.stages[-1].mean))[1]) for course in named]
    frame = axes.bbox.extents
    heights = spread_out(ends, _FONT + 3, frame[1] + 4, frame[3] + 4)
    for text, end, height in zip(texts, ends, heights):
        edge, start = frame[2], frame[2] + 12
        line = axes.transData.inverted().transform([(edge, end), (start, height), (start + 3, height)])
        axes.plot(line[:2, 0], line[:2, 1], color=MUTED, linewidth=0.8, alpha=0.7, clip_on=False)
        axes.text(line[2, 0], line[2, 1], text, fontsize=_FONT, color=FG, va="center_baseline", clip_on=False)


def _end(course: Course) -> str:
    return _SHARE(course.stages[-1].mean, course.stages[-1].std)
