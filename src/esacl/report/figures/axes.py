"""Axes that several plots share, and what is said of their bars."""

from collections.abc import Sequence
from math import ceil, floor, isfinite, isnan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from esacl.report.figures.svg import FG
from esacl.report.rows import Spread

BARS: dict[str, Any] = {"fmt": "none", "elinewidth": 1.2, "capsize": 2.5, "alpha": 0.5, "zorder": 2}
"""The look of bars of one standard deviation."""


def ticks(most: int = 7, integer: bool = False) -> MaxNLocator:
    """At most so many round numbers."""
    return MaxNLocator(most, integer=integer, steps=(1, 2, 5, 10))


def accuracy_axis(axes: Axes, values: Sequence[float]) -> None:
    """A vertical axis of percentages that ends at 100 and starts at a round number below all values."""
    least = min((value for value in values if not isnan(value)), default=0)
    low = max(0, 5 * floor((least - 1) / 5)) if least > 75 else 10 * floor(max(0, least - 3) / 10)
    step = 2 if low >= 90 else 5 if low >= 75 else 10 if low >= 50 else 20
    axes.set_ylim(low, 100 + 0.09 * (100 - low))
    axes.set_yticks(range(-(-low // step) * step, 101, step))
    level_axis(axes, "accuracy (%)")


def level_axis(axes: Axes, name: str) -> None:
    """A vertical axis that is read off level lines."""
    axes.set_ylabel(name)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="x")


def stage_axis(axes: Axes, tasks: int, first: int = 0) -> None:
    """A horizontal axis of stages, one after each task from the first on, which is number 0."""
    axes.set_xlim(first - 0.04 * tasks - 0.1, tasks - 1 + 0.04 * tasks + 0.1)
    axes.set_xticks(range(first, tasks), labels=task_numbers(tasks, most=12)[first:])
    axes.set_xlabel("after training task")


def named_rows(axes: Axes, names: Sequence[str], places: Sequence[float]) -> None:
    """A vertical axis of names, from the top, and a horizontal one of round numbers."""
    axes.set_yticks(places, labels=names)
    axes.tick_params(axis="y", labelcolor=FG)
    axes.xaxis.set_major_locator(ticks(6))
    axes.grid(visible=False, axis="y")
    axes.spines[:].set_visible(False)


def room_for(names: Sequence[str]) -> float:
    """Pixels for the longest name beside a row."""
    return 14 + 8.2 * max(map(len, names))


def task_numbers(tasks: int, most: int = 20) -> list[str]:
    """Task numbers, thinned out where there are too many to write them all."""
    every = -(-tasks // most)
    return [str(task + 1) if task % every == 0 else "" for task in range(tasks)]


def round_range(values: Sequence[float]) -> tuple[float, float]:
    """Round limits around percentages, a little wider than they are."""
    finite = [value for value in values if isfinite(value)] or [0.0, 100.0]
    step = 1 if max(finite) - min(finite) < 4 else 5
    low, high = floor((min(finite) - 0.2 * step) / step) * step, ceil((max(finite) + 0.2 * step) / step) * step
    return max(0, low), max(min(100, high), low + step)


def round_range_of(found: Sequence[Spread]) -> tuple[float, float]:
    """Round limits around shares and their bars, in percent."""
    ends = [100 * (each.mean + sign * (each.std or 0)) for each in found for sign in (-1, 1)]
    return round_range([min(100.0, max(0.0, end)) for end in ends])


def bars_told(found: Sequence[Spread]) -> str:
    """What the bars of a plot are; with one seed there are none.

    >>> bars_told([Spread(0.5, 0.1), Spread(0.5, None)]), bars_told([Spread(0.5, None)])
    ('Bars are ± one standard deviation over the seeds.', 'One seed each, so there are no bars.')
    """
    several = any(each.std is not None for each in found)
    return "Bars are ± one standard deviation over the seeds." if several else "One seed each, so there are no bars."
