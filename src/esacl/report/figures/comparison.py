"""Several runs in one picture: final accuracy, accuracy over time, cost."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from esacl.report.figures.accuracy import accuracy_axis, round_range, stage_axis
from esacl.report.figures.cost import FLOPS_COLOURS, FLOPS_MEANING
from esacl.report.figures.drawing import Drawing, Key
from esacl.report.figures.svg import (
    CARD,
    FG,
    MUTED,
    SERIES,
    WIDTH,
    Margins,
    canvas,
    colour,
    css,
    house_style,
    to_svg,
)
from esacl.report.groups import Contest, Group, spread
from esacl.report.record import Setting
from esacl.report.units import DASH, flops, scale_for, shorten

_LONGEST = 18  # characters of a name beside a row
_SHARE = scale_for("share", [])


def final_accuracy(contest: Contest, setting: Setting, prefix: str) -> Drawing:
    """Every seed as a dot and the mean as a stroke, one row for each method."""
    groups, name = contest.groups, contest.records[0].setting_name(setting)
    values = [[run.accuracy.of(setting) for run in group.records] for group in groups]
    known = [100 * value for row in values for value in row if value is not None]
    low, high = round_range(known)
    texts = [_SHARE(found.mean, found.std) if (found := spread(row)) else DASH for row in values]
    with house_style():
        figure, axes = canvas(WIDTH, 34 * len(groups) + 56, Margins(_room(groups), 92, 8, 48))
        for row, (seeds, text) in enumerate(zip(values, texts)):
            dots = [100 * value for value in seeds if value is not None]
            look: dict[str, Any] = {
                "linestyle": "",
                "marker": "o",
                "markersize": 9,
                "alpha": 0.75,
                "zorder": 3,
                "clip_on": False,
            }
            axes.plot(dots, [row] * len(dots), color=colour(row), markeredgecolor=CARD, **look)
            if len(dots) > 1:
                mean = sum(dots) / len(dots)
                axes.plot([mean] * 2, [row - 0.3, row + 0.3], color=FG, linewidth=2.5, zorder=4, clip_on=False)
            end: dict[str, Any] = {
                "xycoords": axes.get_yaxis_transform(),
                "textcoords": "offset points",
                "va": "center_baseline",
            }
            axes.annotate(text, (1, row), (14, 0), color=FG if dots else MUTED, **end)
        axes.set(xlim=(low, high), xlabel=f"{name} accuracy at the end (%)")
        _named_rows(axes, groups)
        each = "; ".join(f"{group.label} {text}" for group, text in zip(groups, texts))
        svg = to_svg(figure, f"Final {name} accuracy in percent: {each}.", prefix)
    caption = ["Each dot is one run"]
    if any(len(group.records) > 1 for group in groups):
        caption.append("the stroke is the mean over seeds, written with ± their standard deviation")
    if low > 0:
        caption.append("the axis does not start at zero")
    return Drawing(f"{name}: final accuracy", svg, "; ".join(caption) + ".")


def average_over_time(contest: Contest, setting: Setting, prefix: str) -> Drawing:
    """Average accuracy over the tasks seen so far, one line for each method."""
    name, tasks, keys, everything, ends = contest.records[0].setting_name(setting), contest.tasks, [], [], []
    with house_style():
        figure, axes = canvas(WIDTH, 300)
        for place, group in enumerate(contest.groups):
            runs = [run.average_so_far(setting) for run in group.records if setting in run.matrix]
            if not runs:
                continue
            stages = [[100 * value for value in stage] for stage in zip(*runs)]
            means = [sum(stage) / len(stage) for stage in stages]
            joint, dashed = group.records[0].joint, group.records[0].joint or place >= SERIES
            look: dict[str, Any] = {
                "color": colour(place),
                "linewidth": 2.2,
                "linestyle": (0, (4, 2)) if dashed else "-",
            }
            if joint:  # trained on everything at once: a level to compare with, not a course in time
                axes.axhline(means[0], **look)
            else:
                axes.plot(range(tasks), means, marker="o", markersize=4, **look)
                if len(runs) > 1:
                    low, high = [min(stage) for stage in stages], [max(stage) for stage in stages]
                    axes.fill_between(range(tasks), low, high, color=colour(place), alpha=0.15, linewidth=0)
            everything += [value for stage in stages for value in stage]
            keys.append(Key(group.label + (" (all tasks at once)" if joint else ""), css(colour(place)), dashed))
            ends.append(f"{group.label} {means[-1]:.1f}%")
        accuracy_axis(axes, everything)
        stage_axis(axes, tasks)
        label = f"Average {name} accuracy over the tasks seen so far; at the end: {'; '.join(ends)}."
        svg = to_svg(figure, label, prefix)
    seeds = "; the band spans all seeds" if any(len(group.records) > 1 for group in contest.groups) else ""
    caption = f"Average over the tasks seen so far{seeds}."
    return Drawing(f"{name}: average over time", svg, caption, tuple(keys))


def cost_comparison(contest: Contest, prefix: str) -> Drawing:
    """Training FLOPs of each method, in the three ways they are counted."""
    groups = contest.groups
    means = [
        {name: sum(getattr(run.flops, name) for run in group.records) / len(group.records) for name in FLOPS_COLOURS}
        for group in groups
    ]
    scale = scale_for("flops", [count for row in means for count in row.values()])
    with house_style():
        figure, axes = canvas(WIDTH, 58 * len(groups) + 56, Margins(_room(groups), 56, 8, 48))
        for row, counts in enumerate(means):
            for place, (name, count) in enumerate(counts.items()):
                y = row + 0.27 * (place - 1)
                axes.barh(y, count / scale.size, height=0.22, color=FLOPS_COLOURS[name])
                at: dict[str, Any] = {"textcoords": "offset points", "va": "center_baseline", "fontsize": 12.5}
                axes.annotate(scale(count), (count / scale.size, y), (6, 0), color=FG, **at)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"training cost ({scale.unit})")
        _named_rows(axes, groups)
        each = "; ".join(f"{group.label} executed {flops(row['executed'])}" for group, row in zip(groups, means))
        svg = to_svg(figure, f"Training FLOPs of each method: {each}.", prefix)
    keys = tuple(Key(f"{name}: {FLOPS_MEANING[name]}", css(ink)) for name, ink in FLOPS_COLOURS.items())
    return Drawing("Training FLOPs", svg, "Mean over seeds. Three different figures: compare like with like.", keys)


def accuracy_against_cost(contest: Contest, prefix: str) -> Drawing:
    """Final accuracy against executed FLOPs: a dot for each run, better to the top left."""
    everyone = all("class_il" in run.matrix for run in contest.records)
    setting: Setting = "class_il" if everyone else "task_il"
    name, scale = (
        contest.records[0].setting_name(setting),
        scale_for("flops", [run.flops.executed for run in contest.records]),
    )
    heights = [100 * (run.accuracy.of(setting) or 0.0) for run in contest.records]
    with house_style():
        figure, axes = canvas(WIDTH, 300)
        for place, group in enumerate(contest.groups):
            x = [run.flops.executed / scale.size for run in group.records]
            y = [100 * (run.accuracy.of(setting) or 0.0) for run in group.records]
            look: dict[str, Any] = {
                "linestyle": "",
                "marker": "o",
                "markersize": 10,
                "alpha": 0.75,
                "zorder": 3,
                "clip_on": False,
            }
            axes.plot(x, y, color=colour(place), markeredgecolor=CARD, **look)
        accuracy_axis(axes, heights)
        axes.set_xlim(0, 1.08 * max(run.flops.executed for run in contest.records) / scale.size or 1)
        axes.set_xlabel(f"FLOPs executed ({scale.unit})")
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
        svg = to_svg(figure, f"Final {name} accuracy against executed training FLOPs, one dot for each run.", prefix)
    keys = tuple(Key(group.label, css(colour(place))) for place, group in enumerate(contest.groups))
    caption = "Each dot is one run. Better is higher and further left."
    return Drawing(f"{name}: accuracy against cost", svg, caption, keys)


def _named_rows(axes: Axes, groups: tuple[Group, ...]) -> None:
    """A row for each group, from the top, with its name."""
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_yticks(range(len(groups)), labels=_names(groups))
    axes.tick_params(axis="y", labelcolor=FG)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
    axes.grid(visible=False, axis="y")
    axes.spines[:].set_visible(False)


def _room(groups: tuple[Group, ...]) -> float:
    """Pixels for the longest name."""
    return 14 + 8.2 * max(len(name) for name in _names(groups))


def _names(groups: tuple[Group, ...]) -> list[str]:
    return [shorten(group.label, _LONGEST) for group in groups]
