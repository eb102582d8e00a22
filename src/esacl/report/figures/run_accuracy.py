"""How accurate one run is: the accuracy matrix, and each task over time."""

from math import isnan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from esacl.report.figures.axes import accuracy_axis, stage_axis, task_numbers
from esacl.report.figures.chart import Chart, Key
from esacl.report.figures.svg import CARD, FG, HEAT, MUTED, ON_HEAT, WIDTH, Margins, canvas, house_style, shade
from esacl.report.record import RunRecord, Scenario
from esacl.report.units import DASH, percent

_MOST_NUMBERS = 20  # tasks; beyond, a number does not fit its cell
_FEW = 8  # tasks whose lines can be told apart one by one
_DARK_CELL = 0.68  # opacity from which text on a cell takes the other colour


@house_style()
def heat_map(record: RunRecord, setting: Scenario) -> Chart:
    """Accuracy on every task after every stage, with tasks that were not seen yet faded."""
    rows, tasks, name = record.matrix[setting], record.tasks, record.setting_name(setting)
    cell = 38 if len(rows) == 1 else max(22, min(38, 340 / tasks))
    edge = Margins(left=84 if record.joint else 58, right=4, top=54, bottom=8)
    figure, axes = canvas(WIDTH, edge.top + edge.bottom + cell * len(rows), edge)
    for stage, row in enumerate(rows):
        for task, value in enumerate(row):
            seen, fresh = stage >= record.learned_at(task), stage == task and len(rows) > 1
            _cell(axes, (stage, task), value, seen=seen, fresh=fresh, tasks=tasks)
    axes.set(xlim=(0, tasks), ylim=(len(rows), 0), xlabel="accuracy on task (%)")
    axes.set_ylabel("" if record.joint else "after training task")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks([task + 0.5 for task in range(tasks)], labels=task_numbers(tasks))
    stages = ["all tasks"] if record.joint else task_numbers(tasks)
    axes.set_yticks([stage + 0.5 for stage in range(len(rows))], labels=stages)
    axes.tick_params(labelsize=14 if tasks <= 12 else 12)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    final = ", ".join(f"task {task + 1} {percent(value)}" for task, value in enumerate(rows[-1]))
    label = f"{name} accuracy matrix of {record.method}, seed {record.seed}. At the end: {final}."
    if record.joint:
        caption = "All tasks were trained at once, so there is a single row."
    else:
        caption = "Read down a column to see a task fade. Outlined: just trained. Pale: not trained yet."
    least = min(WIDTH, 70 + 19 * tasks)
    return Chart(f"{name}: accuracy matrix", f"matrix-{setting}", figure, axes, label, caption, least_width=least)


@house_style()
def accuracy_over_time(record: RunRecord, setting: Scenario) -> Chart:
    """One line for each task from the stage that trained it, and the average of the tasks seen so far."""
    rows, tasks, name = record.matrix[setting], record.tasks, record.setting_name(setting)
    lines = [[100 * rows[stage][task] for stage in range(task, tasks)] for task in range(tasks)]
    average = [100 * value for value in record.average_so_far(setting)]
    few = tasks <= _FEW
    figure, axes = canvas(WIDTH, 290)
    for task, line in enumerate(lines):
        style: dict[str, Any] = {"linewidth": 1.8, "alpha": 1.0} if few else {"linewidth": 1.3, "alpha": 0.6}
        axes.plot(range(task, tasks), line, color=shade(task, tasks), **style)
        axes.plot([task], line[:1], color=shade(task, tasks), marker="o", markersize=5)
    for task, line in enumerate(lines):  # lines start at different stages: a number there cannot hide another
        if few and not isnan(line[0]):
            box = {"facecolor": CARD, "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
            at: dict[str, Any] = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center", "va": "bottom"}
            axes.annotate(str(task + 1), (task, line[0]), color=shade(task, tasks), fontsize=13, bbox=box, **at)
    axes.plot(range(tasks), average, color=FG, linewidth=3)
    accuracy_axis(axes, [value for line in lines for value in line])
    stage_axis(axes, tasks)
    means = ", ".join(f"{value:.1f}%" for value in average)
    label = f"{name} accuracy of each task over time, {record.method}, seed {record.seed}. Average: {means}."
    caption = "Each line starts, at the dot, where its task was trained."
    ends = (Key("first task", shade(0, tasks)), Key("last task", shade(tasks - 1, tasks)))
    keys = (Key("average of the tasks so far", FG), *ends)
    return Chart(f"{name}: over time", f"over-time-{setting}", figure, axes, label, caption, keys)


def _cell(axes: Axes, at: tuple[int, int], value: float, *, seen: bool, fresh: bool, tasks: int) -> None:
    stage, task = at
    strength = 0.0 if isnan(value) else (0.04 + 0.88 * value**1.5) * (1 if seen else 0.3)
    gap = 0.03 if tasks <= _MOST_NUMBERS else 0
    corner, size = (task + gap, stage + gap), 1 - 2 * gap
    axes.add_artist(Rectangle(corner, size, size, facecolor=HEAT, edgecolor="none", alpha=strength))
    if fresh:
        axes.add_artist(Rectangle(corner, size, size, fill=False, edgecolor=FG, linewidth=1.5))
    if tasks <= _MOST_NUMBERS:
        text = DASH if isnan(value) else f"{100 * value:.{1 if tasks <= _FEW else 0}f}"
        ink = MUTED if not seen else ON_HEAT if strength >= _DARK_CELL else FG
        font = 14 if tasks <= _FEW else 13 if tasks <= 12 else 10.5
        axes.text(task + 0.5, stage + 0.5, text, color=ink, fontsize=font, ha="center", va="center_baseline")
