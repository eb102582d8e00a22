"""What the page says about runs, in the order it says it; the templates only lay it out."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from esacl.report import figures
from esacl.report.columns import columns
from esacl.report.figures import Drawing
from esacl.report.groups import Contest, flatten
from esacl.report.record import DOMAIN_IL, SETTINGS, RunRecord, Scores, Setting
from esacl.report.units import DASH, bytes_, flops, percent, seconds

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

    record: RunRecord
    label: str  # the method, and what tells it apart from others on the page
    facts: tuple[tuple[str, str], ...]
    cards: tuple[Card, ...]
    accuracy: tuple[Drawing, ...]
    training: tuple[Drawing, ...]
    settings_names: tuple[str, ...]
    task_rows: tuple[TaskRow, ...]
    more: dict[str, dict[str, str]]
    config: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the comparison: a method or one of its seeds; cells are (number, ± spread, is best)."""

    name: str
    seed: int | None  # None: the mean over several
    target: str | None  # id of the run it stands for
    cells: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True)
class ContestView:
    """Everything the page compares on one stream."""

    contest: Contest
    headings: tuple[tuple[str, ...], ...]  # in words, which stand below each other
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    drawings: tuple[Drawing, ...]


def view_run(record: RunRecord, label: str, prefix: str) -> RunView:
    """One run, with its figures drawn."""
    settings = record.settings
    drawn = [figures.heat_map(record, setting, f"{prefix}-matrix-{setting}") for setting in settings]
    if len(record.matrix["task_il"]) > 1:
        drawn += [figures.accuracy_over_time(record, setting, f"{prefix}-time-{setting}") for setting in settings]
    return RunView(
        record=record,
        label=label,
        facts=_facts(record),
        cards=_cards(record),
        accuracy=tuple(drawn),
        training=(
            *([figures.training_loss(record, f"{prefix}-loss")] if record.log else []),
            figures.flops_bars(record, f"{prefix}-flops"),
            figures.time_bar(record, f"{prefix}-seconds"),
            figures.memory_bars(record, f"{prefix}-memory"),
        ),
        settings_names=tuple(record.setting_name(setting) for setting in settings),
        task_rows=tuple(_task_row(record, task, settings) for task in range(record.tasks)),
        more=_more(record),
        config=_config(record),
    )


def view_contest(contest: Contest, ids: dict[int, str], prefix: str) -> ContestView:
    """One stream's comparison; `ids` names the section of each run by the identity of its record."""
    return ContestView(
        contest=contest,
        headings=tuple(tuple(column.heading.split()) for column in columns(contest.records)),
        rows=tuple(_comparison_rows(contest, ids)),
        notes=tuple(_notes(contest)),
        drawings=tuple(_comparison_drawings(contest, prefix)) if len(contest.records) > 1 else (),
    )


def _notes(contest: Contest) -> list[str]:
    """How to read the comparison."""
    joint = [group.label for group in contest.groups if group.records[0].joint]
    notes = []
    if len(contest.groups) - len(joint) > 1:
        without = f", without {', '.join(joint)}, which saw all tasks at once" if joint else ""
        notes.append(f"Marked: the best of each column{without}.")
    if any(len(group.records) > 1 for group in contest.groups):
        notes.append("Mean ± sample standard deviation over seeds.")
    return notes


def _comparison_drawings(contest: Contest, prefix: str) -> list[Drawing]:
    settings: list[Setting] = [key for key in SETTINGS if any(key in run.settings for run in contest.records)]
    drawn = [figures.final_accuracy(contest, setting, f"{prefix}-final-{setting}") for setting in settings]
    if contest.tasks > 1:
        drawn += [figures.average_over_time(contest, setting, f"{prefix}-mean-{setting}") for setting in settings]
    drawn.append(figures.cost_comparison(contest, f"{prefix}-flops"))
    drawn.append(figures.accuracy_against_cost(contest, f"{prefix}-worth"))
    return drawn


def _comparison_rows(contest: Contest, ids: dict[int, str]) -> list[Row]:
    """The mean of each method, then its seeds; only what learned task after task can be best."""
    found = columns(contest.records)
    rivals = [group.records for group in contest.groups if not group.records[0].joint]
    best = [column.best(rivals) for column in found]
    rows = []
    for group in contest.groups:
        texts = [column.mean(group.records).partition(" ") for column in found]
        ranked = group.records in rivals
        cells = tuple((mean, std, ranked and mean == top) for (mean, _, std), top in zip(texts, best))
        single = group.records[0] if len(group.records) == 1 else None
        rows.append(Row(group.label, single.seed if single else None, ids[id(single)] if single else None, cells))
        rows += [] if single else [_seed_row(run, ids[id(run)], contest) for run in group.records]
    return rows


def _seed_row(record: RunRecord, target: str, contest: Contest) -> Row:
    cells = tuple((column.cell(record), "", False) for column in columns(contest.records))
    return Row("", record.seed, target, cells)


def _facts(record: RunRecord) -> tuple[tuple[str, str], ...]:
    facts = [("seed", str(record.seed)), ("tasks", str(record.tasks))]
    facts += [("epochs per task", str(record.epochs)), ("evaluated on", record.split)]
    return (*facts, ("sparsity", percent(record.sparsity))) if record.sparsity else tuple(facts)


def _cards(record: RunRecord) -> tuple[Card, ...]:
    accuracy, lost, cost = record.accuracy, record.forgetting, record.flops
    asked = record.config.get("train", {}).get("scenario", "both")
    needs_task = "This method must be told the task, so it has no Class-IL accuracy."
    absent = "This run was asked for Task-IL only." if asked == "task-il" else needs_task
    whole = "All tasks were trained at once, so nothing could be forgotten." if record.joint else GLOSSARY["Forgetting"]
    scores: tuple[Card, ...]
    if record.same_classes:
        scores = (
            Card(DOMAIN_IL, percent(accuracy.task_il), why=GLOSSARY[DOMAIN_IL]),
            Card("Forgetting", percent(lost.task_il), DOMAIN_IL, (), whole),
        )
    else:
        scores = (
            Card("Task-IL", percent(accuracy.task_il), why=GLOSSARY["Task-IL"]),
            Card(
                "Class-IL",
                percent(accuracy.class_il),
                why=absent if accuracy.class_il is None else GLOSSARY["Class-IL"],
            ),
            Card("Forgetting", percent(lost.task_il), "Task-IL", (("Class-IL", percent(lost.class_il)),), whole),
        )
    return (
        *scores,
        Card(
            "Capacity",
            percent(record.capacity),
            "",
            (("weights in use", percent(record.density)), *_measured(record), *_pruning(record)),
            GLOSSARY["Capacity"],
        ),
        Card(
            "Training FLOPs",
            flops(cost.executed),
            "executed",
            (("sparse", flops(cost.sparse)), ("paper", flops(cost.paper))),
            GLOSSARY["Training FLOPs"],
        ),
        Card(
            "Time",
            seconds(record.seconds.total),
            "",
            (("peak memory", bytes_(record.peak_memory_bytes)), ("remembered", bytes_(record.remembered_bytes))),
            GLOSSARY["Time"],
        ),
    )


def _measured(record: RunRecord) -> tuple[tuple[str, str], ...]:
    """Capacity with its masks as they are coded, where there are any."""
    size = record.measured_capacity
    return () if size is None or size == record.density else (("with coded masks", percent(size)),)


def _pruning(record: RunRecord) -> tuple[tuple[str, str], ...]:
    """How pruning changed Task-IL, on average over the tasks."""
    lost = record.pruning_drop.task_il
    return () if lost is None else (("Task-IL by each pruning", percent(-lost, signed=True)),)


def _task_row(record: RunRecord, task: int, settings: Sequence[Setting]) -> TaskRow:
    classes = ", ".join(record.task_classes[task]) if record.task_classes else ""
    scores = []
    for setting in settings:
        rows = record.matrix[setting]
        first, last = rows[record.learned_at(task)][task], rows[-1][task]
        changed = nan if record.learned_at(task) == len(rows) - 1 else last - first
        scores.append((percent(first), percent(last), percent(changed, signed=True)))
    return TaskRow(task + 1, classes or DASH, tuple(scores))


def _more(record: RunRecord) -> dict[str, dict[str, str]]:
    """Figures that are worth having but not worth a card."""

    def both(scores: Scores) -> dict[str, str]:
        shown = record.settings if record.same_classes else SETTINGS
        return {record.setting_name(setting): percent(scores.of(setting), signed=True) for setting in shown}

    run = {"directory": record.name, "evaluated on": f"{record.split} split", "logit mask": record.logit_mask}
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


def _config(record: RunRecord) -> dict[str, dict[str, str]]:
    """Settings by table; those at the top level first."""
    tables: dict[str, dict[str, str]] = {"run": {}}
    for path, value in flatten(record.config).items():
        table, dot, key = path.partition(".")
        tables.setdefault(table if dot else "run", {})[key if dot else table] = value
    return {name: values for name, values in tables.items() if values}
