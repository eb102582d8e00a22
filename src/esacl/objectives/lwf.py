"""Learning without forgetting (LwF; Li & Hoiem 2017): answer on new examples as before, where old classes are meant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, linear, log_softmax

from esacl.columns import MASKED
from esacl.errors import ConfigError
from esacl.nets.network import Network
from esacl.objectives.base import Objective
from esacl.objectives.teacher import Teacher
from esacl.options import option
from esacl.problem import Problem
from esacl.streams.base import Task
from esacl.types import Batch, Columns, Context, Outputs, Replay, State, Trace


@dataclass(frozen=True, slots=True)
class LwfOptions:
    """Settings of LwF. α (the authors' λ_o) and T are the authors'."""

    alpha: float = option(1.0, "α: weight of the distillation", low=0)
    temperature: float = option(2.0, "T: how much the answers of teacher and student are softened", low=0.1, high=100)
    softmax: Literal["task", "joint"] = option("task", "over the columns of each old task, or of all of them together")
    warmup: int = option(0, "epochs at the start of a task (not the first) in which only its own columns learn", low=0)


class Lwf(Objective):
    """CE over the new columns + α · T² · KL(teacher ‖ student) over the old ones, both softened by T.

    Deviation: the factor T² keeps the gradient's size whatever T is (Hinton et al. 2015); the paper has none.
    """

    Options = LwfOptions
    protects = True

    def __init__(self, options: Any, context: Context) -> None:
        if any(len(columns) == 1 for columns in context.task_classes):
            raise ConfigError(
                "lwf compares the classes of a task with one another, but a task has one class only.",
                remedy="Use tasks of at least two classes ({stream.classes_per_task:2}), or another method.",
            )
        super().__init__(options, context)
        if options.warmup >= context.epochs and options.warmup > 0:
            raise ConfigError(
                "{given} leaves nothing of the {epochs} epochs of a task.",
                "objective.warmup",
                options.warmup,
                remedy="Use a smaller {objective.warmup}, or more {train.epochs}.",
                epochs=context.epochs,
            )
        self.columns = list(range(context.classes))  # of the present task; all, until one has begun
        self.old: list[list[int]] = []  # of each task before it
        self.left = 0  # examples until the warm-up is over

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """The task's, as the authors have a head for each."""
        return "task"

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """A warm-up of columns that others compete with."""
        warmup, rule = options["objective"]["warmup"], options["train"]["columns"]
        if not warmup or rule == "task":
            return None
        return Problem(
            "during the warm-up only the task's own columns learn, but {given} lets others compete.",
            "train.columns",
            rule,
            remedy="Use {train.columns:task}, or {objective.warmup:0} instead of {warmup}.",
            warmup=warmup,
        )

    def attach(self, net: Network) -> None:
        """Nobody to learn from yet."""
        self._net = net
        self.teacher = Teacher(net)

    def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Cross-entropy; during the warm-up a function of the task's rows of the head only."""
        logits = outputs.logits
        if self.left:
            logits = torch.where(logits == MASKED, MASKED, self._head(outputs.features.detach()))
        return cross_entropy(logits, batch.y, reduction="none")

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """Distillation on the current batch, from the second task on; nothing can be lost during the warm-up."""
        if not self.old or self.left:
            return None
        temperature = self.options.temperature
        said, told = outputs.logits / temperature, self.teacher(batch.inputs).logits / temperature
        together = [[c for each in self.old for c in each]] if self.options.softmax == "joint" else self.old
        distances = [
            kl_div(log_softmax(said[:, c], 1), log_softmax(told[:, c], 1), reduction="batchmean", log_target=True)
            for c in together
        ]
        distilled: Tensor = self.options.alpha * temperature**2 * torch.stack(distances).sum()
        return distilled

    def begin_task(self, net: Network, task: Task) -> None:
        """Other columns are the new ones."""
        super().begin_task(net, task)
        self.columns = list(task.classes)
        self.left = self.options.warmup * len(task.train) if self.old else 0

    @torch.no_grad()
    def after_step(self, net: Network, trace: Trace) -> None:
        """Count the warm-up down. Weight decay moves what has a gradient of zero: the head's other rows go back."""
        if not self.left:
            return
        before, others = self.teacher.state_dict(), self._others()
        for name in net.partition.head:
            net.stored[name][others] = before[name][others]
        self.left = max(0, self.left - len(trace.batch))

    def end_task(self, net: Network, task: Task) -> None:
        """The network becomes the teacher."""
        self.teacher.take()
        if list(task.classes) not in self.old:  # a task that comes back is no further one to be asked about
            self.old = [*self.old, list(task.classes)]

    def _others(self) -> Tensor:
        """Which columns are not the task's."""
        others = torch.ones(self.context.classes, dtype=torch.bool, device=self.context.device)
        others[self.columns] = False
        return others

    def _head(self, features: Tensor) -> Tensor:
        """Logits of given features. The call that gave them was charged with a backward pass that is not needed."""
        effective = self._net.stored if self._net.view is None else self._net.view(self._net.stored, None)
        return linear(features, effective["head.weight"], effective["head.bias"])

    def state_dict(self) -> State:
        """Teacher, columns and the rest of the warm-up, besides what every objective has."""
        own = {"columns": list(self.columns), "old": [list(each) for each in self.old], "left": self.left}
        return {**super().state_dict(), **own, "teacher": self.teacher.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        super().load_state_dict(state)
        self.columns, self.old = list(state["columns"]), [list(each) for each in state["old"]]
        self.left = state["left"]
        self.teacher.load_state_dict(state["teacher"])
