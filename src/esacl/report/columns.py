"""The figures of a run that summaries compare, and how a column of them is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from esacl.report.groups import Spread, spread
from esacl.report.record import DOMAIN_IL, RunRecord
from esacl.report.units import DASH, Kind, Scale, scale_for


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a run: what it is called, where it stands, and whether more of it is better."""

    family: str  # what it shares its unit with
    name: str
    kind: Kind
    of: Callable[[RunRecord], float | None]
    high_is_good: bool = False

    def spread(self, records: Sequence[RunRecord]) -> Spread | None:
        """Mean and standard deviation over runs."""
        return spread([self.of(record) for record in records])


def _apart(run: RunRecord, value: float | None) -> float | None:
    return None if run.same_classes else value


def _as_one(run: RunRecord, value: float | None) -> float | None:
    return value if run.same_classes else None


FIGURES = (
    Figure("Accuracy", "Task-IL", "share", lambda run: _apart(run, run.accuracy.task_il), high_is_good=True),
    Figure("Accuracy", "Class-IL", "share", lambda run: _apart(run, run.accuracy.class_il), high_is_good=True),
    Figure("Accuracy", DOMAIN_IL, "share", lambda run: _as_one(run, run.accuracy.task_il), high_is_good=True),
    Figure("Forgetting", "Task-IL", "share", lambda run: _apart(run, run.forgetting.task_il)),
    Figure("Forgetting", "Class-IL", "share", lambda run: _apart(run, run.forgetting.class_il)),
    Figure("Forgetting", DOMAIN_IL, "share", lambda run: _as_one(run, run.forgetting.task_il)),
    Figure("FLOPs", "executed", "flops", lambda run: run.flops.executed),
    Figure("FLOPs", "sparse", "flops", lambda run: run.flops.sparse),
    Figure("FLOPs", "paper", "flops", lambda run: run.flops.paper),
    Figure("", "Capacity", "share", lambda run: run.capacity),
    Figure("", "Time", "seconds", lambda run: run.seconds.total),
)
"""What every summary shows."""

CREDITED = Figure("FLOPs", "credited", "flops", lambda run: run.flops.credited)
"""What the paper's number of FLOPs is to be compared with."""

WITH_CREDITED = (*FIGURES[:9], CREDITED, *FIGURES[9:])
"""The same beside the paper's numbers."""

ALL_FIGURES = (
    *WITH_CREDITED,
    Figure("", "Training", "seconds", lambda run: run.seconds.train),
    Figure("", "Density", "share", lambda run: run.density),
    Figure("Capacity", "measured", "share", lambda run: run.measured_capacity),
    Figure("", "Footprint", "bytes", lambda run: run.footprint.total),
    Figure("", "Remembered", "bytes", lambda run: run.remembered_bytes),
)
"""What a table in a file has room for."""

NUMBERS: Mapping[str, Callable[[RunRecord], float | None]] = {
    "task_il": lambda run: run.accuracy.task_il,
    "class_il": lambda run: run.accuracy.class_il,
    "forgetting_task_il": lambda run: run.forgetting.task_il,
    "forgetting_class_il": lambda run: run.forgetting.class_il,
    "density": lambda run: run.density,
    "capacity": lambda run: run.capacity,
    "measured_capacity": lambda run: run.measured_capacity,
    "flops_paper": lambda run: run.flops.paper,
    "flops_credited": lambda run: run.flops.credited,
    "flops_sparse": lambda run: run.flops.sparse,
    "flops_executed": lambda run: run.flops.executed,
    "seconds_train": lambda run: run.seconds.train,
    "seconds_total": lambda run: run.seconds.total,
    "peak_memory_bytes": lambda run: run.peak_memory_bytes,
    "footprint_bytes": lambda run: run.footprint.total,
    "remembered_bytes": lambda run: run.remembered_bytes,
}
"""The same for programs: shares, FLOPs, seconds and bytes, under names that stay."""


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of many runs, in one unit."""

    figure: Figure
    scale: Scale

    @property
    def heading(self) -> str:
        """Name and unit."""
        family = f"{self.figure.family} " if self.figure.family != "Accuracy" else ""
        return f"{family}{self.figure.name} ({self.scale.unit})".lstrip()

    def cell(self, record: RunRecord) -> str:
        """The number of one run."""
        return self.scale(self.figure.of(record))

    def mean(self, records: Sequence[RunRecord]) -> str:
        """Mean ± sample standard deviation over runs."""
        found = self.figure.spread(records)
        return DASH if found is None else self.scale(found.mean, found.std)

    def best(self, rivals: Sequence[Sequence[RunRecord]]) -> str | None:
        """The best mean as written; None where all look the same, so that nothing stands out."""
        means = [found.mean for runs in rivals if (found := self.figure.spread(runs)) is not None]
        if len({self.scale(mean) for mean in means}) < 2:
            return None
        return self.scale(max(means) if self.figure.high_is_good else min(means))


def columns(records: Sequence[RunRecord], figures: Sequence[Figure] = FIGURES) -> list[Column]:
    """Every figure, in a unit that suits these runs; the kinds of FLOPs share theirs."""
    kinds = {run.same_classes for run in records} or {False}
    figures = [figure for figure in figures if _wanted(figure, kinds)]
    values: dict[Kind, list[float | None]] = {}
    for figure in figures:
        values.setdefault(figure.kind, []).extend(figure.of(record) for record in records)
    return [Column(figure, scale_for(figure.kind, values[figure.kind])) for figure in figures]


def _wanted(figure: Figure, kinds: set[bool]) -> bool:
    """Whether a figure means something for runs whose tasks have the same classes, or for the others."""
    return figure.family not in ("Accuracy", "Forgetting") or (figure.name == DOMAIN_IL) in kinds
