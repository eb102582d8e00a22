"""What a finished run has to show, and the stable document that holds it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from esacl.metrics.cost import Flops
from esacl.metrics.memory import Footprint

SCHEMA = 1


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """What a finished run has to show; accuracies are fractions. `None`: not defined for this method."""

    method: str
    stream: str
    seed: int
    sparsity: float
    epochs: int
    tasks: int
    logit_mask: str
    split: str
    task_il: float
    class_il: float | None
    matrix: dict[str, list[list[float]] | None]
    forgetting: dict[str, float | None]
    bwt: dict[str, float | None]
    fwt: dict[str, float | None]
    density: float
    capacity: float
    flops: Flops
    seconds: dict[str, float]
    peak_memory_bytes: int
    footprint_bytes: Footprint
    task_classes: list[list[str]]
    versions: dict[str, str]
    pruning_drop: dict[str, list[float]] = field(default_factory=dict)  # what pruning cost after each task, if measured
    measured_capacity: float | None = None  # values at their density and coded masks, relative to all weights
    columns: str | None = None  # training columns: all, task or seen; None in results of before there was a choice
    remembered_bytes: int | None = None  # held besides the network when training ended: memories, teachers, masks
    weights_sha256: str | None = None  # the digest in model.safetensors, which says whose results these are

    def __repr__(self) -> str:
        scores = (
            {"Domain-IL": self.task_il} if self.same_classes else {"Task-IL": self.task_il, "Class-IL": self.class_il}
        )
        shown = ", ".join(f"{name} {score:.1%}" for name, score in scores.items() if score is not None)
        return f"Results({self.method} on {self.stream}, seed {self.seed}: {shown})"

    @property
    def same_classes(self) -> bool:
        """Whether every one of several tasks has the same classes: Task-IL and Class-IL are then one figure."""
        return len(self.task_classes) > 1 and len(set(map(frozenset, self.task_classes))) == 1

    def to_json(self) -> dict[str, Any]:
        """The stable document that `results.json` holds."""
        return {"schema": SCHEMA, **asdict(self)}

    @staticmethod
    def from_json(document: dict[str, Any]) -> "Results":
        """The results that `to_json` wrote."""
        values = {name: value for name, value in document.items() if name != "schema"}
        values["flops"] = Flops(**values["flops"])
        values["footprint_bytes"] = Footprint(**values["footprint_bytes"])
        return Results(**values)
