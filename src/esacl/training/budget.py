"""How long a task is trained: so many epochs, or until its share of a budget is spent.

Under a budget the tasks that are left share evenly what is left of it. Two trial steps tell what a step of the coming
task costs, and everything is as before afterwards. Parts are told the epochs that this pays for; how far the schedule
is, and when the task ends, is decided by what was really spent. So a method whose later epochs are cheaper trains
longer, and the end of a task (herding, a fitted readout) is paid by the tasks after it.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import ceil

from esacl.budget import Budget, decides_epochs, parse_budget
from esacl.documents import Amount, Count, as_record
from esacl.errors import ConfigError
from esacl.sparsity.base import Phase
from esacl.training.parts import Parts
from esacl.types import State

LEAST = 2
"""Steps a phase that a budget must pay for."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What the first steps of a task tell of it."""

    cost: float  # of a step
    steps: int  # of an epoch


@dataclass(slots=True)
class Plan:
    """What the present task may spend, and what its parts are told."""

    start: Amount  # spent before it
    share: Amount
    epochs: Count
    part: Amount  # of an epoch's batches that are trained on: with less than one epoch, not all are
    cost: Amount  # of a step, the largest so far
    samples: Count  # examples trained on before it
    phases: Count = 0  # epochs of phases that are over


class Pace:
    """So many epochs: the parts and the phases say how many."""

    def __init__(self) -> None:
        self.epochs: list[float] = []  # trained for each task so far, where a budget decides

    def begin_task(self, tasks: int, samples: int, trial: Callable[[], Trial], parts: Parts) -> None:
        """So many tasks are left, the coming one among them; `trial` finds out what its steps cost."""

    def tell(self, parts: Parts) -> None:
        """Say to the parts how many epochs the task has."""

    def steps(self, steps: int, last: bool) -> int:
        """Steps of an epoch that has so many batches."""
        return steps

    def goes_on(self, phase: Phase, epoch: int, parts: Parts) -> bool:
        """Whether another epoch of a phase begins."""
        return epoch < phase.epochs

    def affords(self, phase: Phase, parts: Parts) -> bool:
        """Whether another step of a phase may be taken."""
        return True

    def progress(self, phase: Phase, epochs: float, parts: Parts) -> float:
        """How far the schedule of a phase is, from 0 to 1, after so many of its epochs."""
        return epochs / phase.epochs

    def end_step(self) -> None:
        """A step was taken."""

    def end_phase(self, phase: Phase) -> None:
        """A phase is over."""

    def end_task(self, samples: int, examples: int) -> None:
        """A task of so many examples is over; so many samples were trained on until now."""

    def spent(self) -> float:
        """Nothing that counts."""
        return 0.0

    def done(self) -> tuple[float, float] | None:
        """What is spent, and of how much; None where nothing is."""
        return None

    def state_dict(self) -> State:
        """What the rest of the run depends on."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""


class Spending(Pace):
    """Until a budget is spent; `meter` says how much of it is."""

    def __init__(self, budget: Budget, meter: Callable[[], float]) -> None:
        super().__init__()
        self.budget = budget
        self._meter = meter
        self.plan = Plan(0, 0, 1, 1, 0, 0)
        self.ends: list[float] = []  # cost of the end of each task so far
        self._before = 0.0  # spent when the last step was over

    def begin_task(self, tasks: int, samples: int, trial: Callable[[], Trial], parts: Parts) -> None:
        """An equal share of what is left, less what the end of the task is expected to cost."""
        found, spent = trial(), self.spent()
        share = (self.budget.amount - spent) / tasks - self._end()
        phases = max(1, round(parts.sparsity.planned_epochs() / parts.sparsity.context.epochs))
        if share < LEAST * phases * found.cost:
            self._refuse(spent + tasks * (2 * LEAST * phases * found.cost + self._end()))
        epochs = share / found.cost / found.steps
        told, part = _epochs(epochs, parts)
        self.plan = Plan(spent, share, told, part, found.cost, samples)

    def _end(self) -> float:
        """What the end of the coming task may cost: it grows, and by up to twice as much as it did before."""
        if len(self.ends) < 2:
            return 2 * sum(self.ends)
        before, last = self.ends[-2:]
        return last + 2 * max(0.0, last - before)

    def _refuse(self, least: float) -> None:
        amount = f"{least:.1e}" if self.budget.unit == "flops" else f"{least:.1f}"
        raise ConfigError(
            "{given} does not pay for {least} steps of every task.",
            "train.budget",
            f"{self.budget.amount:g}{self.budget.unit}",
            remedy="Use {train.budget} of about {amount}{unit} or more, a smaller network or {train.batch_size}.",
            least=LEAST,
            amount=amount,
            unit=self.budget.unit,
        )

    def tell(self, parts: Parts) -> None:
        """Say to the parts how many epochs the task has, and how much of each is trained on."""
        _tell(parts, self.plan.epochs, self.plan.part)

    def steps(self, steps: int, last: bool) -> int:
        """A part of the batches; the last epoch may have all of them, as long as they can be paid."""
        return steps if last else max(1, round(self.plan.part * steps))

    def goes_on(self, phase: Phase, epoch: int, parts: Parts) -> bool:
        """While a step can be paid; every phase has at least one."""
        self._before = self.spent()
        return epoch == 0 or self.affords(phase, parts)

    def affords(self, phase: Phase, parts: Parts) -> bool:
        """Whether as much is left for this phase as the dearest step of the task has cost."""
        return self.spent() + self.plan.cost <= self._limit(phase, parts)

    def progress(self, phase: Phase, epochs: float, parts: Parts) -> float:
        """By what was spent of the phase's part of the task's share."""
        end = self._limit(phase, parts)
        start = self.plan.start + self.plan.share * self.plan.phases / parts.sparsity.planned_epochs()
        return min(1.0, max(0.0, (self.spent() - start) / (end - start)))

    def _limit(self, phase: Phase, parts: Parts) -> float:
        """What may be spent when the phase ends: phases share by their epochs."""
        done = (self.plan.phases + phase.epochs) / parts.sparsity.planned_epochs()
        return self.plan.start + self.plan.share * min(1.0, done)

    def end_step(self) -> None:
        """Remember the dearest, with what was spent between it and the one before."""
        spent = self.spent()
        self.plan.cost, self._before = max(self.plan.cost, spent - self._before), spent

    def end_phase(self, phase: Phase) -> None:
        """Count its epochs."""
        self.plan.phases += phase.epochs

    def end_task(self, samples: int, examples: int) -> None:
        """Note how long it was, and what its end has cost since the last step."""
        self.epochs.append((samples - self.plan.samples) / examples)
        self.ends.append(self.spent() - self._before)

    def spent(self) -> float:
        """What counts, so far."""
        return self._meter()

    def done(self) -> tuple[float, float] | None:
        """What is spent, and of how much."""
        return self.spent(), self.budget.amount

    def state_dict(self) -> State:
        """The plan of the present task, and what is known of those before."""
        return {"plan": asdict(self.plan), "epochs": list(self.epochs), "ends": list(self.ends)}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.plan = as_record(state["plan"], Plan)
        self.epochs = as_record(state["epochs"], list[float])
        self.ends = as_record(state["ends"], list[float])


def pace_of(budget: str | None, flops: Callable[[], float], cpu: Callable[[], float]) -> Pace:
    """How long the tasks of a run are trained, which has spent so many FLOPs and CPU seconds so far."""
    if budget is None or not decides_epochs(budget):
        return Pace()
    given = parse_budget(budget)
    return Spending(given, flops if given.unit == "flops" else cpu)


def _epochs(affordable: float, parts: Parts) -> tuple[int, float]:
    """Epochs of its first phase that the parts are told, and the part of each, where so many in all can be paid.

    Some of the data may leave the task while it is trained: then there can be more.
    """
    told = 1
    for _ in range(2):
        _tell(parts, 1, 1.0)
        whole = parts.selection.kept_share
        _tell(parts, told, 1.0)
        wanted = affordable * whole / parts.selection.kept_share
        ratio = parts.sparsity.planned_epochs() / told
        told = max(1, ceil(wanted / ratio - 1e-9))
    _tell(parts, told, 1.0)
    return told, min(1.0, wanted / parts.sparsity.planned_epochs())


def _tell(parts: Parts, epochs: int, part: float) -> None:
    for each in parts.all():
        each.context = replace(each.context, epochs=epochs, epoch_part=part)
