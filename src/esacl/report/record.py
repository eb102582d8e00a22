"""What a finished run left behind, as typed records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, Literal

from esacl.metrics.cost import Flops
from esacl.metrics.memory import Footprint

Scenario = Literal["task_il", "class_il"]
SETTINGS: tuple[Scenario, ...] = ("task_il", "class_il")
SCENARIO_NAMES: Mapping[Scenario, str] = {"task_il": "Task-IL", "class_il": "Class-IL"}
DOMAIN_IL = "Domain-IL"  # what both are where every task has the same classes

Matrix = tuple[tuple[float, ...], ...]  # [stage][task]; NaN where it was not measured


@dataclass(frozen=True, slots=True)
class Scores:
    """One figure in both settings; None where it has no meaning."""

    task_il: float | None
    class_il: float | None

    def of(self, setting: Scenario) -> float | None:
        """The figure in one setting."""
        return self.task_il if setting == "task_il" else self.class_il


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall time and what it went into."""

    total: float
    train: float
    evaluate: float
    data: float
    cpu: float | None = None  # of training; None where the run did not record it

    @property
    def other(self) -> float:
        """What is neither data, training nor evaluation."""
        return max(0.0, self.total - self.train - self.evaluate - self.data)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One line of the training log."""

    task: int
    phase: str
    epoch: int
    loss: float  # NaN or infinite when training diverged


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One finished run."""

    name: str  # of its directory
    path: Path  # of its directory
    method: str
    stream: str
    seed: int
    sparsity: float
    epochs: int
    tasks: int
    logit_mask: str
    columns: str | None  # training columns; None where the run did not record them
    split: str
    accuracy: Scores
    matrix: Mapping[Scenario, Matrix]  # only the settings the method can answer
    forgetting: Scores
    bwt: Scores
    fwt: Scores
    density: float
    capacity: float
    measured_capacity: float | None  # None where the run did not record it
    pruning_drop: Scores  # mean over the stages; None where nothing is pruned or the drop was not measured
    flops: Flops
    seconds: Seconds
    peak_memory_bytes: float | None
    remembered_bytes: float | None  # None where the run did not record it
    footprint: Footprint
    config: Mapping[str, Any]
    log: tuple[Epoch, ...]
    task_classes: tuple[tuple[str, ...], ...]  # names; empty where the run did not record them
    versions: Mapping[str, str]  # of what it ran with
    budget: str | None = None  # as it was given
    confusion: tuple[tuple[int, ...], ...] = ()  # class × answer; empty where the run did not record it

    @property
    def stored_bytes(self) -> float | None:
        """Weights and what is remembered beside them."""
        return None if self.remembered_bytes is None else self.footprint.parameters + self.remembered_bytes

    @property
    def same_classes(self) -> bool:
        """Whether every one of several tasks has the same classes: Task-IL and Class-IL are then one figure."""
        return len(self.task_classes) > 1 and len(set(map(frozenset, self.task_classes))) == 1

    @property
    def settings(self) -> tuple[Scenario, ...]:
        """The settings that are worth showing: those it can answer, and one of two that coincide."""
        return ("task_il",) if self.same_classes else tuple(key for key in SETTINGS if key in self.matrix)

    def setting_name(self, setting: Scenario) -> str:
        """What a setting is called here."""
        return DOMAIN_IL if self.same_classes else SCENARIO_NAMES[setting]

    @property
    def joint(self) -> bool:
        """Whether all tasks were trained at once, so that there is no order in time."""
        return self.tasks > 1 and len(self.matrix["task_il"]) == 1

    def learned_at(self, task: int) -> int:
        """The stage after which the network knows `task`."""
        return 0 if self.joint else task

    def average_so_far(self, setting: Scenario) -> list[float]:
        """Mean accuracy over the tasks seen, after each stage."""
        rows = self.matrix[setting]
        seen = [row if self.joint else row[: stage + 1] for stage, row in enumerate(rows)]
        return [_mean([value for value in row if not isnan(value)]) for row in seen]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def shown_settings(records: Sequence[RunRecord]) -> tuple[Scenario, ...]:
    """The settings that are worth a plot of these runs: one where two coincide in all of them."""
    return SETTINGS[:1] if records and all(record.same_classes for record in records) else SETTINGS
