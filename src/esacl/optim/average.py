"""The average slot: which weights answer, the last ones or an average of those on the way."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from esacl.nets.layers import NORMS
from esacl.nets.network import Network
from esacl.nets.statistics import recalibrate
from esacl.nets.widths import Places, taken
from esacl.options import option
from esacl.part import Part
from esacl.problem import Problem
from esacl.rng import generator
from esacl.streams.base import Examples, Task
from esacl.streams.rows import joined
from esacl.types import Params, State

LOOKS = 2048  # images at most that BatchNorm statistics are taken from
CHUNK = 256


class Average(Part):
    """The last weights answer."""

    def after_step(self, net: Network) -> None:
        """A step was taken."""

    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """A task has ended, and the network is pruned."""

    @contextmanager
    def answering(self, net: Network) -> Iterator[None]:
        """The network has the weights that answer; the last ones are back afterwards."""
        yield


@dataclass(frozen=True, slots=True)
class EmaOptions:
    """Settings of the average."""

    decay: float = option(0.99, "what is left of the average in a step", low=0, high=0.999999)


class Ema(Average):
    """An exponential average of the weights answers; training goes on with the last ones.

    Weights that pruning has set to zero are zero in the average too. It has BatchNorm statistics of its own, taken anew
    when a task ends, from its images and the memory.
    """

    Options: ClassVar[type[Any]] = EmaOptions

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """A strategy that holds the weights of earlier tasks fast: an average would move them."""
        sparsity = parts["sparsity"]
        if not (getattr(sparsity, "holds_classes", False) or getattr(sparsity, "runs_parts", False)):
            return None
        return Problem(
            "{sparsity} answers earlier tasks with the very weights they ended with, and an average would move them.",
            remedy="Use {parts.average:last}, or another sparsity, such as esacl.",
            sparsity=sparsity.__name__,
        )

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """A constraint that holds the statistics of earlier tasks fast."""
        if "norms" not in options["constraint"]:
            return None
        return Problem(
            "gpm answers earlier tasks with the BatchNorm statistics of then, but an average takes its own anew.",
            remedy="Use {parts.average:last}, or {parts.constraint:none}.",
        )

    def attach(self, net: Network) -> None:
        """It starts where training starts."""
        self.values = {name: value.detach().clone() for name, value in net.stored.items()}
        self.buffers = _buffers(net)

    @torch.no_grad()
    def after_step(self, net: Network) -> None:
        """Move towards the weights; one multiply-add for each."""
        torch._foreach_lerp_(list(self.values.values()), list(net.stored.values()), 1 - self.options.decay)
        net.meter.charge(sum(value.numel() for value in self.values.values()))

    @torch.no_grad()
    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Prune with the same mask, and take the statistics anew."""
        for name in net.partition.prunable:
            self.values[name].masked_fill_(net.stored[name] == 0, 0.0)
        if any(isinstance(module, NORMS) for module in net.model.modules()):
            with self.answering(net):
                recalibrate(net, self._looks(task, remembered))
                self.buffers = _buffers(net)

    def _looks(self, task: Task, remembered: Examples | None) -> Iterator[Tensor]:
        """Images of the task and the memory, well mixed."""
        images = task.train.x if remembered is None else joined([task.train.x, remembered.x])
        draw = generator(self.context.seed, "average", task.index)
        order = torch.randperm(len(images), generator=draw)[:LOOKS]
        for rows in order.tensor_split(max(1, len(order) // CHUNK)):
            yield self.context.inputs.plain(images[rows].to(self.context.device))

    def narrow(self, places: Mapping[str, Places]) -> None:
        """The average has the same channels."""
        self.values = {name: taken(value, places.get(name, ())) for name, value in self.values.items()}
        self.buffers = {name: taken(value, places.get(name, ())) for name, value in self.buffers.items()}

    @contextmanager
    def answering(self, net: Network) -> Iterator[None]:
        """Swap the values; the tensors stay those that the optimiser knows."""
        last = {name: value.detach().clone() for name, value in net.stored.items()}, _buffers(net)
        _fill(net, self.values, self.buffers)
        try:
            yield
        finally:
            _fill(net, *last)

    def state_dict(self) -> State:
        """The average and its statistics."""
        return {
            "values": {name: value.clone() for name, value in self.values.items()},
            "buffers": {name: value.clone() for name, value in self.buffers.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        device = self.context.device
        self.values = {name: value.clone().to(device) for name, value in state["values"].items()}
        self.buffers = {name: value.clone().to(device) for name, value in state["buffers"].items()}


def _buffers(net: Network) -> Params:
    return {name: value.detach().clone() for name, value in net.model.named_buffers()}


@torch.no_grad()
def _fill(net: Network, values: Params, buffers: Params) -> None:
    for name, value in net.stored.items():
        value.copy_(values[name])
    for name, buffer in net.model.named_buffers():
        buffer.copy_(buffers[name])
