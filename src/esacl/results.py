"""What a finished run has to show, and the stable document that holds it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from esacl.documents import Amount, Change, Count, Positive, Share, as_record
from esacl.metrics.cost import Flops
from esacl.metrics.memory import Footprint

SCHEMA = 1

Scores = dict[str, Change | None]
Matrix = Sequence[Sequence[Share | None]]  # [stage][task]; None where it was not measured


class NewerSchema(ValueError):
    """Results of a version of this library that is yet to come."""


@dataclass(frozen=True, slots=True)
class Spending:
    """A budget and what became of it."""

    asked: str  # as it was given: 2e12flops, 300s, 20MB
    spent: Amount  # in FLOPs, CPU seconds or bytes
    epochs: list[Amount] = field(default_factory=list)  # trained for each task; none where it does not decide them


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Results:
    """What a finished run has to show; accuracies are fractions. `None`: not defined for this method.

    The types say what a document may hold: whoever reads one gets results that can be shown, or an error.
    """

    method: str
    stream: str
    seed: Count
    sparsity: Share
    epochs: Count
    tasks: Positive
    logit_mask: str  # batch with --fit-loss ace, else none
    split: str
    task_il: Share
    class_il: Share | None
    matrix: Mapping[str, Matrix | None]
    forgetting: Scores
    bwt: Scores
    fwt: Scores
    density: Amount
    capacity: Amount
    flops: Flops
    seconds: dict[str, Amount]
    peak_memory_bytes: Count | None
    footprint_bytes: Footprint
    task_classes: list[list[str]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    pruning_drop: dict[str, Annotated[list[Change], Meta(min_length=1)]] = field(default_factory=dict)
    # what pruning cost after each task, if measured
    measured_capacity: Amount | None = None  # values at their density and coded masks, relative to all weights
    columns: str | None = None  # training columns: all, task or seen; None in results of before there was a choice
    remembered_bytes: Count | None = None  # held besides the network when training ended: memories, teachers, masks
    budget: Spending | None = None
    confusion: list[list[Count]] | None = None  # class × answer after the last task, in the order of task_classes;
    # among all classes, or those of the task where there is no Class-IL; None with more than 100 classes
    weights_sha256: str | None = None  # the digest in model.safetensors, which says whose results these are

    def __post_init__(self) -> None:
        """Refuse figures that do not belong together."""
        scores = {"task_il": self.task_il, "class_il": self.class_il}
        known = {name: rows for name, rows in self.matrix.items() if rows is not None}
        if known.keys() != {name for name, score in scores.items() if score is not None}:
            raise ValueError("an accuracy and its matrix must be there, or be null, together")
        for name, rows in known.items():
            if len(rows) not in (1, self.tasks) or any(len(row) != self.tasks for row in rows):
                raise ValueError(f"matrix.{name} is not a matrix with {self.tasks} columns and 1 or {self.tasks} rows")
        if len({len(rows) for rows in known.values()}) > 1:
            raise ValueError("both matrices must have the same number of rows")
        if len(self.task_classes) not in (0, self.tasks):
            raise ValueError(f"task_classes is not one list of names for each of the {self.tasks} tasks")
        rows = self.confusion or []
        names = {name for names in self.task_classes for name in names}
        if any(len(row) != len(rows) for row in rows) or (rows and names and len(rows) != len(names)):
            raise ValueError("confusion is not a square matrix of the classes")
        if missing := {"total", "train", "evaluate", "data"} - self.seconds.keys():
            raise ValueError(f"seconds: there is no {min(missing)}")

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
    def from_json(document: Any) -> "Results":
        """The results that `to_json` wrote; ValueError where they are damaged, NewerSchema where of a later version."""
        schema = document.get("schema") if isinstance(document, dict) else None
        if type(schema) is int and schema > SCHEMA:
            raise NewerSchema(f"it has schema {schema}, but this version of esacl reads schema {SCHEMA}")
        if schema != SCHEMA:
            raise ValueError("there is no schema" if schema is None else f"schema = {schema!r} is not {SCHEMA}")
        return as_record(document, Results)
