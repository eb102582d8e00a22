"""Isolation: a finished task answers bitwise the same for ever, as nothing that its answers depend on moves again."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.options import option
from esacl.sparsity.base import SparsityStrategy
from esacl.streams.base import Examples, Task
from esacl.types import Params, State

SILENT = -1e4  # a logit that no softmax sees, finite in every precision


@dataclass(frozen=True, slots=True)
class IsolationOptions:
    """Settings of strategies that give each task weights of its own."""

    level: float = option(0.5, "share of the prunable weights that stay zero", low=0, high=0.9999)
    norms: Literal["own", "first"] = option(
        "own", "hidden biases and BatchNorm: each task keeps its own; or they stay as the first task left them"
    )
    head: Literal["own", "shared"] | None = option(
        None, "a task learns with its own columns alone, or against all (default: own; shared beside a memory)"
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
        """Columns of earlier tasks take part in the loss where their examples are rehearsed."""
        return {"head": "own" if options["objective"].get("buffer") is None else "shared"}

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Rehearsing columns that take no part in the loss."""
        buffer = options["objective"].get("buffer")
        if buffer is None or options["sparsity"]["head"] == "shared":
            return None
        return (
            f"with sparsity.head = 'own' columns of earlier tasks take no part in the loss, so the examples that "
            f"objective.buffer = {buffer!r} remembers of them cannot be rehearsed. Use sparsity.head = 'shared', or an "
            f"objective without a memory."
        )

    @property
    def target(self) -> float:
        """Sparsity asked for."""
        return float(self.options.level)

    @property
    def own_columns(self) -> bool:
        """With a head for each task."""
        return bool(self.options.head == "own")

    def attach(self, net: Network) -> None:
        """Nothing is finished yet."""
        self.done = 0  # tasks that have ended
        self.open = False  # whether a task is being learnt
        self.norms: list[Params] = []  # of each finished task, where it has its own: biases, BatchNorm, statistics
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
                return self._alone(self.learning(params))
            task = self.done - 1
        # filled in place: otherwise the result has another memory layout, and convolutions round in another order
        masked = {name: params[name].clone().masked_fill_(rest, 0.0) for name, rest in self._unused(task).items()}
        # copies, as a call in training mode moves the statistics that it is given
        return {**params, **masked, **{name: value.clone() for name, value in self.norms[task].items()}}

    def _alone(self, params: Params) -> Params:
        """The task that is being learnt with a head of its own: other columns take no part in a softmax."""
        if not self.open or self.options.head == "shared":
            return params
        rows = {name: self._held[name] for name in self._partition.head if name in self._held}
        return {**params, **{n: params[n].masked_fill(m, 0.0 if m.ndim > 1 else SILENT) for n, m in rows.items()}}

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
        kept = {**{name: net.stored[name] for name in net.partition.other}, **dict(net.model.named_buffers())}
        self.norms.append({name: value.detach().clone() for name, value in kept.items()} if own else {})
        if not own:
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

    def belongings(self) -> Params:
        """Biases and BatchNorm of each task."""
        return {f"norms.{task}.{name}": value for task, own in enumerate(self.norms) for name, value in own.items()}

    def state_dict(self) -> State:
        """How far it is, the rows that stay, and what each task keeps beside its weights."""
        norms = [dict(own) for own in self.norms]
        return {"done": self.done, "open": self.open, "still": self.still.clone(), "norms": norms}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before; subclasses load what they hold first."""
        device = self.still.device
        self.done, self.open = state["done"], state["open"]
        self.still = state["still"].to(device, copy=True)
        self.norms = [{name: value.to(device, copy=True) for name, value in own.items()} for own in state["norms"]]
        self._asked = None
        self.hold()
