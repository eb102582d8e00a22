"""The numbers of a run that are compared, and how a column of them is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from esacl.report.record import DOMAIN_IL, RunRecord
from esacl.report.rows import Row, Spread, spread
from esacl.report.units import DASH, Kind, Unit, unit_for


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a run: what it is called, where it stands, and whether more of it is better."""

    key: str  # for programs, who find a share, FLOPs, seconds or bytes under it
    family: str  # what it shares its unit with
    name: str
    kind: Kind
    of: Callable[[RunRecord], float | None]
    high_is_good: bool = False

    @property
    def learning(self) -> bool:
        """Whether it measures what was learned: its spread over the seeds is then worth showing."""
        return self.family in ("Accuracy", "Forgetting")

    def spread(self, records: Sequence[RunRecord]) -> Spread | None:
        """Mean and standard deviation over runs."""
        return spread([self.of(record) for record in records])


_ALL = (
    Metric("task_il", "Accuracy", "Task-IL", "share", lambda run: run.accuracy.task_il, high_is_good=True),
    Metric("class_il", "Accuracy", "Class-IL", "share", lambda run: run.accuracy.class_il, high_is_good=True),
    Metric("forgetting_task_il", "Forgetting", "Task-IL", "share", lambda run: run.forgetting.task_il),
    Metric("forgetting_class_il", "Forgetting", "Class-IL", "share", lambda run: run.forgetting.class_il),
    Metric("density", "", "Density", "share", lambda run: run.density),
    Metric("capacity", "", "Capacity", "share", lambda run: run.capacity),
    Metric("measured_capacity", "Capacity", "measured", "share", lambda run: run.measured_capacity),
    Metric("flops_paper", "FLOPs", "paper", "flops", lambda run: run.flops.paper),
    Metric("flops_credited", "FLOPs", "credited", "flops", lambda run: run.flops.credited),
    Metric("flops_sparse", "FLOPs", "sparse", "flops", lambda run: run.flops.sparse),
    Metric("flops_executed", "FLOPs", "executed", "flops", lambda run: run.flops.executed),
    Metric("seconds_train", "", "Training", "seconds", lambda run: run.seconds.train),
    Metric("seconds_cpu", "", "CPU time", "seconds", lambda run: run.seconds.cpu),
    Metric("seconds_total", "", "Time", "seconds", lambda run: run.seconds.total),
    Metric("peak_memory_bytes", "", "Peak memory", "bytes", lambda run: run.peak_memory_bytes),
    Metric("footprint_bytes", "", "Footprint", "bytes", lambda run: run.footprint.total),
    Metric("remembered_bytes", "", "Remembered", "bytes", lambda run: run.remembered_bytes),
    Metric("stored_bytes", "", "Stored", "bytes", lambda run: run.stored_bytes),
)
METRICS: Mapping[str, Metric] = {metric.key: metric for metric in _ALL}
"""Every number by its key, in the order in which programs find them."""

LEARNING = ("task_il", "class_il", "forgetting_task_il", "forgetting_class_il")
"""What was learned."""

_FLOPS, _STORED = ("flops_executed", "flops_sparse", "flops_paper"), ("capacity", "seconds_total")
MAIN = (*LEARNING, *_FLOPS, *_STORED)
"""What every table shows."""

WITH_CREDITED = (*LEARNING, *_FLOPS, "flops_credited", *_STORED)
"""The same beside the paper's numbers: what the paper's number of FLOPs is to be compared with."""

EVERYTHING = (*WITH_CREDITED, "seconds_train", "density", "measured_capacity", "footprint_bytes", "remembered_bytes")
"""What a table in a file has room for."""


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of many runs, in one unit."""

    metric: Metric
    name: str  # Domain-IL where Task-IL and Class-IL are one
    unit: Unit

    @property
    def heading(self) -> str:
        """Name and unit."""
        family = f"{self.metric.family} " if self.metric.family != "Accuracy" else ""
        return f"{family}{self.name} ({self.unit.name})".lstrip()

    def cell(self, record: RunRecord) -> str:
        """The number of one run."""
        return self.unit(self.metric.of(record))

    def mean(self, records: Sequence[RunRecord]) -> str:
        """Mean over runs, with the sample standard deviation where it measures learning; cost is a plain mean."""
        found = self.metric.spread(records)
        return DASH if found is None else self.unit(found.mean, found.std if self.metric.learning else None)

    def best(self, rows: Sequence[Row]) -> str | None:
        """The best mean of those that compete, as written; None where all look the same, so that none stands out."""
        rivals = [self.metric.spread(row.records) for row in rows if row.records and not row.joint]
        means = [found.mean for found in rivals if found is not None]
        if len({self.unit(mean) for mean in means}) < 2:
            return None
        return self.unit(max(means) if self.metric.high_is_good else min(means))


def columns(records: Sequence[RunRecord], keys: Sequence[str] = MAIN) -> list[Column]:
    """These metrics, in units that suit the runs; the kinds of FLOPs share theirs, and Domain-IL is one column."""
    one = bool(records) and all(run.same_classes for run in records)
    metrics = [METRICS[key] for key in keys if not (one and METRICS[key].name == "Class-IL")]
    values: dict[Kind, list[float | None]] = {}
    for metric in metrics:
        values.setdefault(metric.kind, []).extend(metric.of(record) for record in records)
    names = [DOMAIN_IL if one and metric.learning else metric.name for metric in metrics]
    return [Column(metric, name, unit_for(metric.kind, values[metric.kind])) for metric, name in zip(metrics, names)]
