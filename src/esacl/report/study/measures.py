"""The numbers behind the plots of a study: a line's place in a plane, and its course over the tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from esacl.metrics.accuracy import forgetting
from esacl.report.groups import Spread, spread
from esacl.report.record import RunRecord, Setting
from esacl.report.sheet import Line
from esacl.report.units import Kind


@dataclass(frozen=True, slots=True)
class Cost:
    """Something that accuracy is held against."""

    name: str
    slug: str
    kind: Kind
    of: Callable[[RunRecord], float]
    about: str


COSTS = (
    Cost("capacity", "capacity", "share", lambda run: run.capacity, "What must be stored, by the paper's formula."),
    Cost("executed FLOPs", "flops", "flops", lambda run: run.flops.executed, "What the hardware did in training."),
    Cost(
        "wall time",
        "time",
        "seconds",
        lambda run: run.seconds.train,
        "Training alone, on the machine of the run, with whatever else it was doing.",
    ),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """A line in the plane of cost and accuracy, each with its spread over the seeds."""

    line: Line
    x: Spread
    y: Spread


@dataclass(frozen=True, slots=True)
class Course:
    """A line over the tasks: forgetting after the second, the third, ..., the last."""

    line: Line
    stages: tuple[Spread, ...]


def accuracy_of(line: Line, setting: Setting) -> Spread | None:
    """Accuracy at the end; None where the method has none in this setting, or no run is finished."""
    return spread([record.accuracy.of(setting) for record in line.records])


def dots(lines: Sequence[Line], setting: Setting, cost: Cost) -> list[Dot]:
    """Every line that has an accuracy in this setting."""
    found = []
    for line in lines:
        x, y = spread([cost.of(record) for record in line.records]), accuracy_of(line, setting)
        if x is not None and y is not None:
            found.append(Dot(line, x, y))
    return found


def courses(lines: Sequence[Line], setting: Setting) -> list[Course]:
    """Forgetting after each task, of every line that learned task after task."""
    found = []
    for line in lines:
        runs = [_course(record, setting) for record in line.records]
        stages = [spread(stage) for stage in zip(*runs)]
        known = tuple(stage for stage in stages if stage is not None and isfinite(stage.mean))
        if known and len(known) == len(stages):
            found.append(Course(line, known))
    return found


def _course(record: RunRecord, setting: Setting) -> list[float | None]:
    """Forgetting of what was learned so far, after each task from the second on."""
    if setting not in record.matrix or record.joint:
        return []
    rows = record.matrix[setting]
    return [forgetting([row[: stage + 1] for row in rows[: stage + 1]]) for stage in range(1, len(rows))]
