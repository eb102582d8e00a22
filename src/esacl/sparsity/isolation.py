"""Isolation: a finished task answers bitwise the same for ever, as nothing that its answers depend on moves again."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.nets.task_norms import TaskNorms
from esacl.options import option
from esacl.problem import Problem
from esacl.sparsity.base import SparsityStrategy
from esacl.streams.base import Examples, Task
from esacl.types import Columns, Params, State


@dataclass(frozen=True, slots=True)
class IsolationOptions:
    """Settings of strategies that give each task weights of its own."""

    level: float = option(0.5, "share of the prunable weights that stay zero", low=0, high=0.9999)
    norms: Literal["own", "first"] = option(
        "own", "hidden biases and BatchNorm: each task keeps its own; or they stay as the first task left them"
    )
    head: Literal["own", "shared"] | None = option(
        None, "earlier name of train.columns: own is task (the default), shared is all (the default beside a memory)"
    )
    recalibrate: Literal["no", "task"] = option("no", "BatchNorm statistics anew from the task's images when it ends")


class Isolated(SparsityStrategy, ABC):
    """What finished tasks use is held: their weights, their rows of the head, their biases and BatchNorm.

    Subclasses say which weights are taken, which of them a finished task uses, and how the weights of the task that
    is being learnt are seen.
    """

    Options: ClassVar[type[Any]] = IsolationOptions
    views_weights = True
    needs_task_id = True
    holds_classes = True
    stores_masks = True

    @classmethod
    def beside(cls, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Earlier columns take part in the loss where their examples are rehearsed, unless columns were given."""
        rehearsed = options["objective"].get("buffer") is not None
        return {"head": "shared"} if rehearsed and options["train"]["columns"] is None else {}

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """The task's, as the authors have a head for each."""
        return "all" if options["head"] == "shared" else "task"

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """Two rules for training columns, or rehearsing examples whose columns no new class competes with."""
        head, rule = options["sparsity"]["head"], options["train"]["columns"]
        if head is not None and rule != {"own": "task", "shared": "all"}[head]:
            return Problem(
                "{given} and {train.columns:{rule}} contradict each other.",
                "sparsity.head",
                head,
                remedy="Leave {sparsity.head} out: {train.columns} says it all.",
                rule=rule,
            )
        buffer = options["objective"].get("buffer")
        if buffer is None or rule != "task":
            return None
        return Problem(
            "with {given} the columns of earlier tasks take no part in the loss of this one, so there is no use in "
            "rehearsing the {buffer} examples that {objective.buffer} remembers of them.",
            "train.columns",
            "task",
            remedy="Use {train.columns:all}, or an objective without a memory.",
            buffer=buffer,
        )

    @property
    def target(self) -> float:
        """Sparsity asked for."""
        return float(self.options.level)

    def attach(self, net: Network) -> None:
        """Nothing is finished yet."""
        self.done = 0  # tasks that have ended
        self.open = False  # whether a task is being learnt
        self.norms = TaskNorms()  # biases, BatchNorm and its statistics, where a task has its own
        self.still = torch.zeros(self.context.classes, dtype=torch.bool, device=net.device)  # rows of the head
        self._stored, self._partition = net.stored, net.partition
        self._asked: tuple[int, Params] | None = None
        self.hold()

    @abstractmethod
    def taken(self) -> Params:
        """Masks of the prunable weights that may not move now; empty where all may."""

    @abstractmethod
    def used(self, task: int) -> Params:
        """Masks of the prunable weights that a finished task answers with."""

    def learning(self, params: Params) -> Params:
        """Effective parameters of the task that is being learnt."""
        return params

    def hold(self) -> None:
        """Find out anew what may not move."""
        self._held = self.taken()
        if self.still.any():
            for name in self._partition.head:
                value = self._stored[name]
                self._held[name] = self.still.view(-1, *[1] * (value.ndim - 1)).expand_as(value)
        if self.done and self.options.norms == "first":
            for name in self._partition.other:
                self._held[name] = torch.ones_like(self._stored[name], dtype=torch.bool)

    def view(self, params: Params, task: int | None) -> Params:
        """A finished task: its weights, zeros elsewhere, its biases and BatchNorm. Any other: what is learnt now.

        Where no task is being learnt, whoever asks without a number, or for a task to come, is answered by the last.
        """
        if task is None or task >= self.done:
            if self.open or not self.done:
                return self.learning(params)
            task = self.done - 1
        # filled in place: otherwise the result has another memory layout, and convolutions round in another order
        masked = {name: params[name].clone().masked_fill_(rest, 0.0) for name, rest in self._unused(task).items()}
        return {**params, **masked, **self.norms.of(task)}

    def _unused(self, task: int) -> Params:
        """Masks of what a finished task leaves out; the last answer is kept, as many batches are asked in a row."""
        if self._asked is None or self._asked[0] != task:
            self._asked = task, {name: ~mask for name, mask in self.used(task).items()}
        return self._asked[1]

    def frozen(self) -> Params:
        """What is held."""
        return dict(self._held)

    def constrained(self) -> Collection[str]:
        """Parameters with something held."""
        return self._held.keys()

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """What is held stays, bit for bit."""
        return torch.where(self._held[name], before, after)

    def begin_task(self, net: Network, task: Task) -> None:
        """A task is learnt from now on. Of the head only its rows move, as if each task had a head of its own."""
        self.open = True
        self.still.fill_(True)
        self.still[list(task.classes)] = False
        self.hold()

    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Close the task: nothing that it uses moves again."""
        own = self.options.norms == "own"
        if own or not self.done:
            self.recalibrate(net, task, None)  # what is remembered of other tasks is answered by other weights
        if own:
            self.norms.keep(net, net.partition.other)
        else:
            self.norms.keep_nothing()
            net.frozen_statistics = True
        self.still.fill_(True)
        self.done, self.open = self.done + 1, False
        self.hold()
        self._unused(self.done - 1)  # what is asked for next, also inside torch.func, where no mask can be unpacked

    def masks(self, net: Network) -> list[Params]:
        """One for each finished task."""
        return [self.used(task) for task in range(self.done)]

    def density(self, net: Network) -> dict[str, float]:
        """Share of weights that a finished task uses; during a task, of those that it is learnt with."""
        if self.open or not self.done:
            return super().density(net)
        unions = dict(self.used(0))
        for mask in self.masks(net)[1:]:
            unions = {name: union | mask[name] for name, union in unions.items()}
        return {name: union.sum().item() / union.numel() for name, union in unions.items()}

    def task_state(self) -> Params:
        """Biases and BatchNorm of each task."""
        return self.norms.task_state()

    def state_dict(self) -> State:
        """How far it is, the rows that stay, and what each task keeps beside its weights."""
        norms = self.norms.state_dict()
        return {"done": self.done, "open": self.open, "still": self.still.clone(), "norms": norms}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before; subclasses load what they hold first."""
        device = self.still.device
        self.done, self.open = state["done"], state["open"]
        self.still = state["still"].to(device, copy=True)
        self.norms.load_state_dict(state["norms"], device)
        self._asked = None
        self.hold()
