"""A method and its network that learn task after task, without knowing how many will come."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from esacl.assembly import assemble
from esacl.config import Config
from esacl.machine import machine
from esacl.methods import Method
from esacl.nets import OwnNet
from esacl.streams.base import Examples, Stream, Task
from esacl.streams.inputs import ImageInputs
from esacl.training.events import Event
from esacl.training.trainer import Trainer
from esacl.types import UNKNOWN_TASKS, Params, State

AT_ONCE = 256  # examples that are answered in one call
Listen = Callable[[Trainer, Event], None]


@dataclass(frozen=True, slots=True)
class ClassifierPlan:
    """What a learner is built from."""

    config: Config  # resolved
    shape: tuple[int, int, int]
    inputs: ImageInputs
    columns: int
    expected: int | None = None  # number of tasks, if known
    own: OwnNet | None = None  # the network, where it is the user's
    method: Method | None = None  # what the settings' method was composed to

    def stream(self, history: tuple[tuple[int, ...], ...], examples: Examples | None = None) -> Stream:
        """Tasks of these columns, of which only the last has examples; nothing is evaluated.

        Nothing is held out, so that classes of a few examples can be learnt: methods that watch the validation split
        to know when to stop are shown what they learn from.
        """
        kind = torch.float32 if examples is None else examples.x.dtype
        nothing = Examples(torch.empty(0, *self.shape, dtype=kind), torch.empty(0, dtype=torch.int64))
        earlier = tuple(Task(index, columns, nothing, nothing, nothing) for index, columns in enumerate(history))
        last = () if examples is None else (replace(earlier[-1], train=examples, validation=examples),)
        stages = earlier[: len(earlier) - len(last)] + last
        return Stream("arrays", tuple(map(str, range(self.columns))), (), stages, self.inputs)


class Learner:
    """Never changes: to learn a task gives another learner, so that a failure or an interruption costs nothing."""

    def __init__(
        self, plan: ClassifierPlan, history: tuple[tuple[int, ...], ...] = (), state: State | None = None
    ) -> None:
        self.plan = plan
        self.history = history  # columns of the classes of each task
        self._trainer: Trainer | None = None
        if state is not None:
            with machine(plan.config.machine) as device:
                self._trainer = self._assembled(plan, plan.stream(history), device, fresh=False)
                self._trainer.load_state_dict(state)

    def __reduce__(self) -> tuple[type["Learner"], tuple[ClassifierPlan, tuple[tuple[int, ...], ...], State | None]]:
        return Learner, (self.plan, self.history, self.state_dict())

    @property
    def _tasks(self) -> int:
        return UNKNOWN_TASKS if self.plan.expected is None else self.plan.expected

    def _assembled(self, plan: ClassifierPlan, stream: Stream, device: torch.device, fresh: bool) -> Trainer:
        return assemble(plan.config, stream, device, self._tasks, plan.own, method=plan.method, fresh=fresh)

    @property
    def seen(self) -> set[int]:
        """Columns of all classes that were learnt."""
        return {column for columns in self.history for column in columns}

    def fit_task(self, examples: Examples, config: Config, listen: Listen | None = None) -> "Learner":
        """This learner after one more task."""
        plan = replace(self.plan, config=config)
        history = (*self.history, tuple(sorted(set(examples.y.tolist()))))
        pupil = Learner(plan, history)
        with machine(config.machine) as device:
            trainer = self._assembled(plan, plan.stream(history, examples), device, fresh=self._trainer is None)
            if self._trainer is not None:
                trainer.load_state_dict(
                    deepcopy(self._trainer.state_dict())
                )  # parts may go on with what they are given
            for event in trainer.run():
                if listen is not None:
                    listen(trainer, event)
        trainer.stream = plan.stream(history)  # the examples are the caller's: only memories stay
        pupil._trainer = trainer
        return pupil

    def logits(self, x: Tensor) -> Tensor:
        """A score for every column, [N, columns], in batches and without gradients."""
        assert self._trainer is not None
        net, parts = self._trainer.net, self._trainer.parts
        readout, batches = parts.readout, torch.split(x, AT_ONCE)
        with parts.average.answering(net), net.inference("evaluate"):
            found = [readout.logits(net, self.plan.inputs.plain(raw.to(net.device)), None) for raw in batches]
        return torch.cat(found).cpu()

    def seen_logits(self, x: Tensor) -> Tensor:
        """The same, with −∞ for columns whose class was not learnt."""
        scores = self.logits(x)
        unlearnt = torch.ones(scores.shape[1], dtype=torch.bool)
        unlearnt[sorted(self.seen)] = False
        return scores.masked_fill(unlearnt, -torch.inf)

    def answers(self, x: Tensor) -> Tensor:
        """The column of the most likely class of each example."""
        return self.seen_logits(x).argmax(1)

    def memory(self) -> Examples | None:
        """The examples that its method remembers; None where it remembers none."""
        assert self._trainer is not None
        return self._trainer.parts.objective.buffer_examples()

    def weights(self) -> Params:
        """The model's state as it answers, with a head that gives the readout's answers: for use elsewhere."""
        assert self._trainer is not None
        net, parts = self._trainer.net, self._trainer.parts
        with parts.average.answering(net):
            state = parts.readout.folded(net.effective_state())
            return {name: value.detach().cpu().clone() for name, value in state.items()}

    def density(self) -> float:
        """Share of the weights (head and biases apart) that are not zero."""
        assert self._trainer is not None
        net = self._trainer.net
        return net.in_use(self._trainer.parts.sparsity.density(net))

    def state_dict(self) -> State | None:
        """What it has learnt; None before the first task."""
        return None if self._trainer is None else self._trainer.state_dict()
