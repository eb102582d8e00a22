"""The readout slot: how the network answers."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from esacl.columns import MASKED
from esacl.errors import ConfigError
from esacl.nets.features import features_move, features_of
from esacl.nets.network import Network
from esacl.nets.widths import Places, taken
from esacl.part import Part
from esacl.problem import Problem
from esacl.streams.base import Examples, Task
from esacl.types import Context, Params, State


class Readout(Part):
    """The network's own head as training left it; other readouts are fitted at the end of a task."""

    answers_unseen: ClassVar[bool] = True  # whether a class can be answered before its task was trained

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """A head that nobody trains."""
        if cls.fit is not Readout.fit or getattr(parts["objective"], "trains_head", True):
            return None
        return untrained_head(parts)

    def lend(self, task: Task) -> Task:
        """A task as it is trained: without examples that the readout holds out. The same whenever it is asked."""
        return task

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Fit on what may be seen at the end of a task: its own examples and the remembered ones."""

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """One score per class; `task` is given only to methods that need to know it."""
        return net(x, task).logits

    def folded(self, state: Params) -> Params:
        """The model's state with a head that gives the same answers: what is saved for use without this library."""
        return state


class FeatureReadout(Readout):
    """Fitted on features, once for all tasks: what is common to such readouts."""

    answers_unseen = False
    adds_up: ClassVar[bool] = True  # whether it keeps what it found of earlier classes, and adds the task's

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """Features that change with the task, because weights do."""
        sparsity = parts["sparsity"]
        if not getattr(sparsity, "needs_task_id", False):
            return None
        return Problem(
            "{readout} is fitted with the weights of the last task, but {sparsity} answers every task with weights of "
            "its own.",
            remedy="Use {parts.readout:head} where the objective trains it, or another sparsity, such as esacl.",
            readout=cls.__name__,
            sparsity=sparsity.__name__,
        )

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """Features that change with the task, because normalisation does."""
        norms = options["constraint"].get("norms", "first")
        if norms == "first":
            return None
        return Problem(
            "{readout} is fitted with the normalisation of the last task, but {given} answers every task with its own.",
            "constraint.norms",
            norms,
            remedy="Use {constraint.norms:first}, or {parts.readout:head} where the objective trains it.",
            readout=cls.__name__,
        )

    def attach(self, net: Network) -> None:
        """Refuse features of earlier classes that nobody can take again."""
        moves = features_move(net)
        self.streams = self.adds_up and not moves  # what was seen of an earlier task still holds
        if not self.streams and not self.context.memory:
            raise ConfigError(
                "{readout} is fitted anew on features of every class, but the method remembers no examples of "
                f"earlier tasks{', and the network moves on' if moves else ''}.",
                remedy="Freeze the network ({net.freeze:all}) and use {parts.readout:lda}, use {parts.readout:head} or "
                "{parts.readout:bias}, or a method with a memory, such as esacl-er.",
                readout=type(self).__name__,
            )


class LinearReadout(FeatureReadout):
    """A head of its own beside the network's, which goes on training as if there were no other."""

    adds_up = False

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.weight = torch.empty(0)  # [classes, features]
        self.bias = torch.empty(0)  # MASKED for classes that are out of the question

    def attach(self, net: Network) -> None:
        """No class can be answered yet."""
        super().attach(net)
        self.weight = torch.zeros_like(net.stored["head.weight"])
        self.bias = torch.full_like(net.stored["head.bias"], MASKED)

    def narrow(self, places: Mapping[str, Places]) -> None:
        """It reads the features that are left."""
        self.weight = taken(self.weight, (None, places["head.weight"][1]))

    def gather(self, task: Task, remembered: Examples | None) -> Examples:
        """What it is fitted on."""
        raise NotImplementedError

    def solve(self, features: Tensor, places: Tensor, classes: int) -> tuple[Tensor, Tensor, int]:
        """Weights and biases of the classes, and the multiply-adds that they took."""
        raise NotImplementedError

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Take features, solve from zero, in double precision."""
        found = self.gather(task, remembered)
        columns, places = torch.unique(found.y, return_inverse=True)
        features = features_of(net, self.context, found.x).cpu().double()
        weight, bias, macs = self.solve(features, places, len(columns))
        net.meter.charge(macs)
        self.put(columns, weight, bias)

    def put(self, columns: Tensor, weight: Tensor, bias: Tensor) -> None:
        """Answer with these columns, and with no other."""
        self.weight = self.weight.new_zeros(len(self.weight), weight.shape[1])  # the network may have grown
        self.bias = torch.full_like(self.bias, MASKED)
        self.weight[columns] = weight.to(self.weight)
        self.bias[columns] = bias.to(self.bias)

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """Features by its own head."""
        return torch.nn.functional.linear(net(x, task).features, self.weight, self.bias)

    def folded(self, state: Params) -> Params:
        """Its head instead of the network's."""
        return {**state, "head.weight": self.weight.clone(), "head.bias": self.bias.clone()}

    def state_dict(self) -> State:
        """Its head."""
        return {"weight": self.weight.clone(), "bias": self.bias.clone()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        check_columns(self.context.classes, state["weight"], state["bias"])
        self.weight = state["weight"].clone().to(self.context.device)
        self.bias = state["bias"].clone().to(self.context.device)


def check_columns(classes: int, *values: Tensor) -> None:
    """Refuse what is not there once for each class."""
    for value in values:
        if not value.ndim or len(value) != classes:
            raise ValueError(f"a readout of {classes} classes has no values of shape {list(value.shape)}")


def untrained_head(parts: Mapping[str, type[Part]]) -> Problem:
    """Why a readout cannot use the head of an objective that does not train it."""
    return Problem(
        "{objective} learns features only, so the network's head would answer at random.",
        remedy="Use {parts.readout:probe}, {parts.readout:refit}, {parts.readout:lda} or {parts.readout:nearest-mean}.",
        objective=parts["objective"].__name__,
    )
