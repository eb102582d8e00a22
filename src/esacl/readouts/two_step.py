"""Two steps: the task by linear discriminant analysis, the class by the head among the classes of that task."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import linear

from esacl.nets.choice import CHOICE, two_step
from esacl.nets.network import Network
from esacl.options import option
from esacl.part import Part
from esacl.problem import Problem
from esacl.readouts.base import untrained_head
from esacl.readouts.lda import Lda, LdaOptions
from esacl.streams.base import Examples, Task
from esacl.types import Context, Params, State


@dataclass(frozen=True, slots=True)
class TwoStepOptions(LdaOptions):
    """Settings of the choice of the task. Features of several branches are not normal: OAS would shrink too little."""

    shrinkage: float | None = option(
        0.3, "share of the identity in the covariance; nothing: as OAS says for normal features", low=0, high=1
    )


class TwoStep(Lda):
    """p(class) = p(task) by LDA on all features · p(class | task) by the head, so Task-IL is that of the head.

    For heads that learn a task among its own classes, whose logits nobody can compare between tasks. A class of several
    tasks belongs to the last of them.
    """

    Options: ClassVar[type[Any]] = TwoStepOptions

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """A head that nobody trains, or weights that change with the task."""
        return super().misfit(parts) if getattr(parts["objective"], "trains_head", True) else untrained_head(parts)

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.member = torch.empty(context.classes, 0, dtype=torch.bool, device=context.device)

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """LDA, and whose class each is by now."""
        super().fit(net, task, remembered)
        self.member = torch.zeros(self.context.classes, task.index + 1, dtype=torch.bool, device=self.context.device)
        for index, columns in enumerate(self.context.task_classes[: task.index + 1]):
            self.member[list(columns)] = False
            self.member[list(columns), index] = True

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """Log-probabilities."""
        outputs = net(x, task)
        return two_step(outputs.logits, linear(outputs.features, self.weight, self.bias), self.member)

    def folded(self, state: Params) -> Params:
        """The head as it is, and what chooses the task beside it."""
        own = {"weight": self.weight, "bias": self.bias, "member": self.member}
        return {**state, **{f"{CHOICE}{name}": value.clone() for name, value in own.items()}}

    def state_dict(self) -> State:
        """Besides that of LDA, whose class each is."""
        return {**super().state_dict(), "member": self.member.clone()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        super().load_state_dict(state)
        self.member = state["member"].clone().to(self.context.device)
