"""How accuracy and forgetting go from task to task: one line for each row, named at its end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from matplotlib.axes import Axes

from esacl.metrics.accuracy import forgetting
from esacl.report.figures.axes import BARS, accuracy_axis, bars_told, level_axis, stage_axis, ticks
from esacl.report.figures.chart import Chart, Spot
from esacl.report.figures.cost_plot import MOST_NAMES, NAMED
from esacl.report.figures.families import family_keys, family_of
from esacl.report.figures.labels import spread_out
from esacl.report.figures.svg import FG, MUTED, PHONE, WIDTH, Margins, canvas, house_style
from esacl.report.record import RunRecord, Scenario
from esacl.report.rows import Row, Spread, spread
from esacl.report.units import PERCENT, shorten

_LONGEST, _FONT = 22, 12


@dataclass(frozen=True, slots=True)
class Course:
    """A row from task to task; a single value where it saw all tasks at once."""

    row: Row
    stages: tuple[Spread, ...]  # up to the last task

    @property
    def end(self) -> str:
        """Its last value."""
        return PERCENT(self.stages[-1].mean, self.stages[-1].std)


def average_courses(rows: Sequence[Row], setting: Scenario) -> list[Course]:
    """Mean accuracy over the tasks so far, after each task."""
    return _courses(rows, lambda run: run.average_so_far(setting) if setting in run.matrix else [])


def forgetting_courses(rows: Sequence[Row], setting: Scenario) -> list[Course]:
    """Forgetting of the tasks so far, after each task from the second on, of rows that learned task after task."""

    def course(run: RunRecord) -> list[float | None]:
        rows = [] if run.joint else run.matrix.get(setting, ())
        return [forgetting([row[: stage + 1] for row in rows[: stage + 1]]) for stage in range(1, len(rows))]

    return _courses(rows, course)


def average_over_tasks(rows: Sequence[Row], setting: Scenario) -> Chart | None:
    """Average accuracy over the tasks so far; who saw all of them at once is a level to compare with."""
    found = average_courses(rows, setting)
    if all(len(course.stages) == 1 for course in found):
        return None
    return _over_tasks(found, setting, "average accuracy", "Average over the tasks so far.", high_is_good=True)


def forgetting_over_tasks(rows: Sequence[Row], setting: Scenario) -> Chart | None:
    """Forgetting of the tasks so far, after each task from the second on."""
    found = forgetting_courses(rows, setting)
    caption = "How far the tasks so far fell from their best, on average; lower is better."
    return _over_tasks(found, setting, "forgetting", caption, high_is_good=False) if found else None


def _courses(rows: Sequence[Row], of: Callable[[RunRecord], Sequence[float | None]]) -> list[Course]:
    found = []
    for row in rows:
        stages = [spread(stage) for stage in zip(*map(of, row.records))]
        known = tuple(stage for stage in stages if stage is not None and isfinite(stage.mean))
        if known and len(known) == len(stages):
            found.append(Course(row, known))
    return found


@house_style()
def _over_tasks(found: Sequence[Course], setting: Scenario, what: str, caption: str, *, high_is_good: bool) -> Chart:
    name, tasks = found[0].row.records[0].setting_name(setting), found[0].row.records[0].tasks
    ranked = sorted(found, key=lambda course: course.stages[-1].mean, reverse=high_is_good)
    named = ranked if len(found) <= MOST_NAMES else ranked[:NAMED]
    texts = [shorten(course.row.label, _LONGEST) for course in named]
    margins = Margins(right=18 + 0.58 * _FONT * max(map(len, texts)), top=16)
    figure, axes = canvas(WIDTH, max(330, 76 + (_FONT + 3) * len(named)), margins)
    spots: list[Spot] = []
    for place, course in enumerate(found):
        spots += _line(axes, course, tasks, shift=0.16 * (place / max(1, len(found) - 1) - 0.5))
    stage_axis(axes, tasks, first=tasks - max(len(course.stages) for course in found))
    if high_is_good:
        accuracy_axis(axes, [100 * (at.mean - (at.std or 0)) for course in found for at in course.stages])
    else:
        axes.yaxis.set_major_locator(ticks())
        level_axis(axes, f"{what} (%)")
    _names(axes, named, texts)
    order, best, worst = ("highest", "lowest") if high_is_good else ("least", "most"), ranked[0], ranked[-1]
    ends = ", ".join(f"{word} {course.row.label} {course.end} %" for word, course in zip(order, (best, worst)))
    label = f"{name} {what} after each task, {len(found)} rows. At the end: {ends}."
    told = [caption, "Lines stand a little apart.", bars_told([course.stages[-1] for course in found])]
    told += ["Dashed: all tasks at once."] if any(course.row.joint for course in found) else []
    told += [f"Named: the {NAMED} with the {order[0]} at the end."] if len(named) < len(found) else []
    keys, title = family_keys(course.row for course in found), f"{name}: {what} over tasks"
    slug = f"{what.partition(' ')[0]}-{setting}"
    return Chart(title, slug, figure, axes, label, " ".join(told), keys, tuple(spots), least_width=PHONE)


def _line(axes: Axes, course: Course, tasks: int, shift: float) -> list[Spot]:
    """Draw a course and return its points; a level has one, at the last task."""
    family, first = family_of(course.row), tasks - len(course.stages)
    at = [stage + shift for stage in range(first, tasks)]
    means, errors = [100 * each.mean for each in course.stages], [100 * (each.std or 0) for each in course.stages]
    axes.errorbar(at, means, errors, color=family.ink, **BARS)
    style: dict[str, Any] = {"markersize": 5.5, "linewidth": 1.5, "alpha": 0.9, "clip_on": False, "zorder": 3}
    axes.plot(at, means, marker=family.marker, color=family.ink, **style)
    if course.row.joint:
        axes.axhline(means[0], color=family.ink, linewidth=1.5, linestyle=(0, (4, 2)))
    return [
        Spot(course.row, x, y, f"{PERCENT(each.mean, each.std)} % after task {stage}")
        for stage, (x, y, each) in enumerate(zip(at, means, course.stages), start=first + 1)
    ]


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
