"""What a tuning chooses: for every row the trial with the best mean over the seeds, and how clear that was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from esacl.config import Scenario
from esacl.grid.plan import Cell
from esacl.grid.points import Point
from esacl.grid.tables import grid_lines
from esacl.grid.tuning import TunedRow, Tuning
from esacl.report.record import RunRecord
from esacl.report.rows import Row, Spread, spread

NEAR = 0.01
"""Trials that are no further than this below the best are as good as it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings that were tried, and what came of them with every seed."""

    point: Point
    settings: Mapping[str, Any]
    line: Row
    score: Spread | None  # None where a seed failed: such a trial is worse than any other

    @property
    def label(self) -> str:
        """Its settings in words."""
        return ", ".join(f"{name} {value}" for name, value in self.settings.items())


@dataclass(frozen=True, slots=True)
class Choice:
    """The trials of a row and the best of them."""

    row: TunedRow
    trials: Sequence[Trial]
    best: Trial | None  # None where every trial failed

    @property
    def near(self) -> int:
        """How many trials are within a point of the best, which is one of them: many mean a flat optimum."""
        if self.best is None or self.best.score is None:
            return 0
        least = self.best.score.mean - NEAR - 1e-9
        return sum(trial.score is not None and trial.score.mean >= least for trial in self.trials)

    @property
    def ends(self) -> dict[str, str]:
        """The settings of the best that are the smallest or largest of three or more: better ones may lie beyond."""
        if self.best is None:
            return {}
        numbers = {name: values for name, values in self.row.tried.items() if len(values) > 2 and _ordered(values)}
        chosen = self.best.settings
        found = {name: {min(values): "smallest", max(values): "largest"} for name, values in numbers.items()}
        return {name: words[chosen[name]] for name, words in found.items() if chosen[name] in words}


def choose(tuning: Tuning, cells: Sequence[Cell], score: Scenario) -> list[Choice]:
    """The best trial of every row; of equal ones the first that is listed."""
    lines = iter(grid_lines(cells))  # in the order of the trials
    return [_choice(row, [_trial(row, point, next(lines), score) for point in row.trials]) for row in tuning.rows]


def _trial(row: TunedRow, point: Point, line: Row, score: Scenario) -> Trial:
    complete = len(line.records) == line.wanted
    found = spread([score_of(record, score) for record in line.records]) if complete else None
    return Trial(point, row.settings(point), line, found)


def _choice(row: TunedRow, trials: Sequence[Trial]) -> Choice:
    complete = [(trial.score.mean, trial) for trial in trials if trial.score is not None]
    best = max(complete, key=lambda pair: pair[0], default=(0.0, None))[1]
    return Choice(row, trials, best)


def score_of(record: RunRecord, score: Scenario) -> float | None:
    """What a run is judged by; a method that must be told the task has only Task-IL to be judged by."""
    if score == "task-il":
        return record.accuracy.task_il
    if score == "class-il":
        return record.accuracy.class_il
    known = [value for value in (record.accuracy.task_il, record.accuracy.class_il) if value is not None]
    return fmean(known) if known else None


def _ordered(values: Sequence[Any]) -> bool:
    """Whether values are numbers, which have a smallest and a largest."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
