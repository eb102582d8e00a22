"""What the page says about one run, in the order it says it; the templates only lay it out."""

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from esacl.report.record import DOMAIN_IL, SETTINGS, RunRecord, Scores
from esacl.report.rows import flatten
from esacl.report.units import DASH, bytes_, flops, percent, seconds

if TYPE_CHECKING:
    from esacl.report.figures.themes import Theme

GLOSSARY = {
    "Task-IL": "Accuracy at the end, averaged over all tasks, when the task is known at test time: "
    "only the classes of that task compete.",
    "Class-IL": "The same when the task is not known at test time: the classes of all tasks compete.",
    DOMAIN_IL: "Accuracy at the end, averaged over all tasks. Every task has the same classes in a new look, so that "
    "Task-IL and Class-IL are one figure.",
    "Forgetting": "How far the tasks fell, on average, from their best accuracy to their accuracy at the end. "
    "Lower is better; 0% means that nothing was lost.",
    "Capacity": "What must be stored to use the network (weights kept, masks of tasks), as a share of the dense one.",
    "Training FLOPs": "Executed: what the hardware did. Sparse: the same, with zero weights counted as free. "
    "Paper: the paper's formula, metered. Credited: what the paper would report. Different figures, not one.",
    "Time": "Wall time from start to end on the machine of the run, with the peak memory it reached, and what the "
    "method remembers besides the network: examples, teachers, masks.",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One headline number, with others that belong to it."""

    title: str
    value: str
    label: str = ""
    others: tuple[tuple[str, str], ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task: accuracy when it was learned, at the end, and the change, in each setting."""

    number: int
    classes: str
    scores: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class RunView:
    """Everything the page shows of one run."""

    id: str
    record: RunRecord
    label: str  # the method, and what tells it apart from others on the page
    accuracy: "Theme"
    training: "Theme"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What was run, in short."""
        run = self.record
        facts = [("seed", str(run.seed)), ("tasks", str(run.tasks)), ("epochs per task", str(run.epochs))]
        return [*facts, ("evaluated on", run.split), *([("sparsity", percent(run.sparsity))] if run.sparsity else [])]

    @property
    def summary(self) -> str:
        """Its accuracy in one line."""
        scores = [card for card in _scores(self.record) if card.title != "Forgetting"]
        return ", ".join(f"{card.title} {card.value}" for card in scores)

    @property
    def cards(self) -> list[Card]:
        """The headline numbers."""
        return _cards(self.record)

    @property
    def settings_names(self) -> list[str]:
        """The settings of the table of tasks."""
        return [self.record.setting_name(setting) for setting in self.record.settings]

    @property
    def task_rows(self) -> list[TaskRow]:
        """The table of tasks."""
        return [_task_row(self.record, task) for task in range(self.record.tasks)]

    @property
    def more(self) -> dict[str, dict[str, str]]:
        """Figures that are worth having but not worth a card."""
        return _more(self.record)

    @property
    def config(self) -> dict[str, dict[str, str]]:
        """Settings by table; those at the top level first."""
        tables: dict[str, dict[str, str]] = {"run": {}}
        for path, value in flatten(self.record.config).items():
            table, dot, key = path.partition(".")
            tables.setdefault(table if dot else "run", {})[key if dot else table] = value
        return {name: values for name, values in tables.items() if values}


def _cards(record: RunRecord) -> list[Card]:
    cost = record.flops
    stored = (("weights in use", percent(record.density)), *_measured(record), *_pruning(record))
    counted = (("sparse", flops(cost.sparse)), ("paper", flops(cost.paper)))
    held = (("peak memory", bytes_(record.peak_memory_bytes)), ("remembered", bytes_(record.remembered_bytes)))
    return [
        *_scores(record),
        Card("Capacity", percent(record.capacity), "", stored, GLOSSARY["Capacity"]),
        Card("Training FLOPs", flops(cost.executed), "executed", counted, GLOSSARY["Training FLOPs"]),
        Card("Time", seconds(record.seconds.total), "", held, GLOSSARY["Time"]),
    ]


def _scores(record: RunRecord) -> list[Card]:
    """Accuracy and forgetting; where they are missing, why."""
    accuracy, lost = record.accuracy, record.forgetting
    asked = record.config.get("train", {}).get("scenario", "both")
    needs_task = "This method must be told the task, so it has no Class-IL accuracy."
    absent = "This run was asked for Task-IL only." if asked == "task-il" else needs_task
    whole = "All tasks were trained at once, so nothing could be forgotten." if record.joint else GLOSSARY["Forgetting"]
    name = record.setting_name("task_il")
    first = Card(name, percent(accuracy.task_il), why=GLOSSARY[name])
    if record.same_classes:
        return [first, Card("Forgetting", percent(lost.task_il), name, (), whole)]
    why = absent if accuracy.class_il is None else GLOSSARY["Class-IL"]
    other = (("Class-IL", percent(lost.class_il)),)
    second = Card("Class-IL", percent(accuracy.class_il), why=why)
    return [first, second, Card("Forgetting", percent(lost.task_il), name, other, whole)]


def _measured(record: RunRecord) -> tuple[tuple[str, str], ...]:
    """Capacity with its masks as they are coded, where there are any."""
    size = record.measured_capacity
    return () if size is None or size == record.density else (("with coded masks", percent(size)),)


def _pruning(record: RunRecord) -> tuple[tuple[str, str], ...]:
    """How pruning changed Task-IL, on average over the tasks."""
    lost = record.pruning_drop.task_il
    return () if lost is None else (("Task-IL by each pruning", percent(-lost, signed=True)),)


def _task_row(record: RunRecord, task: int) -> TaskRow:
    classes = ", ".join(record.task_classes[task]) if record.task_classes else ""
    scores = []
    for setting in record.settings:
        rows = record.matrix[setting]
        first, last = rows[record.learned_at(task)][task], rows[-1][task]
        changed = nan if record.learned_at(task) == len(rows) - 1 else last - first
        scores.append((percent(first), percent(last), percent(changed, signed=True)))
    return TaskRow(task + 1, classes or DASH, tuple(scores))


def _more(record: RunRecord) -> dict[str, dict[str, str]]:
    def both(scores: Scores) -> dict[str, str]:
        shown = record.settings if record.same_classes else SETTINGS
        return {record.setting_name(setting): percent(scores.of(setting), signed=True) for setting in shown}

    loss = {"none": "ce", "batch": "ace"}.get(record.logit_mask, record.logit_mask)
    run = {"directory": record.name, "evaluated on": f"{record.split} split", "fit loss": loss}
    if record.columns is not None:
        run["training columns"] = record.columns
    tables = {
        "backward transfer": both(record.bwt),
        "forward transfer": both(record.fwt),
        "network": {"sparsity asked for": percent(record.sparsity), "weights in use": percent(record.density)},
        "run": run,
        "versions": dict(record.versions),
    }
    return {name: values for name, values in tables.items() if values}
