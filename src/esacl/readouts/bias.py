"""Bias correction: the head as it is, with one scale and one shift for the columns of each task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.errors import ConfigError
from esacl.nets.features import logits_of
from esacl.nets.network import Network
from esacl.options import option
from esacl.part import Part
from esacl.problem import Problem
from esacl.readouts.base import FeatureReadout, check_columns, untrained_head
from esacl.readouts.examples import balanced
from esacl.rng import generator
from esacl.streams.base import Examples, Task
from esacl.types import Context, Params, State

PULL = 1e-3  # weight of (log scale)² + shift², so that there is one minimum: a common shift changes no answer


@dataclass(frozen=True, slots=True)
class BiasOptions:
    """Settings of bias correction."""

    form: Literal["fit", "norms"] = option(
        "fit", "fit: by examples (BiC); norms: columns of every task equally long (WA)"
    )
    held: int | None = option(
        None,
        "fit: images of each class held out of training, at most a tenth of them; 0: fit on the memory "
        "(default: 0 with a memory, else 10)",
        low=0,
        high=100_000,
    )


class Bias(FeatureReadout):
    """One scale and one shift for each task's columns: fitted on examples (Wu 2019), or from norms (Zhao 2020).

    The classes of one task keep their order, so Task-IL is that of the head. Deviation: BiC fits on examples held out
    of training; by default the memory serves where there is one. WA changes the head itself
    after every task; here the head goes on training as it is, and all tasks are aligned anew.
    """

    Options: ClassVar[type[Any]] = BiasOptions
    answers_unseen = True

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """A head that nobody trains, or one of weights that change with the task."""
        trained = getattr(parts["objective"], "trains_head", True)
        return super().misfit(parts) if trained else untrained_head(parts)

    @classmethod
    def beside(cls, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """A memory is there to be fitted on."""
        return {"held": 0 if "buffer" in options["objective"] else 10}

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.scale = torch.ones(context.classes, device=context.device)
        self.shift = torch.zeros(context.classes, device=context.device)
        self.kept: dict[int, Examples] = {}  # held out, by task

    def attach(self, net: Network) -> None:
        """With examples of its own, or none, it needs no memory of others."""

    def lend(self, task: Task) -> Task:
        """All but what is held out."""
        held = self._held_out(task)
        if not len(held):
            return task
        rest = torch.ones(len(task.train), dtype=torch.bool)
        rest[held] = False
        return replace(task, train=task.train.take(rest.nonzero().squeeze(1)))

    def _held_out(self, task: Task) -> Tensor:
        """Rows of a task's examples that are not trained on."""
        if self.options.form == "norms" or not self.options.held:
            return torch.empty(0, dtype=torch.int64)
        order = torch.randperm(len(task.train), generator=generator(self.context.seed, "held out", task.index))
        of_class = [order[task.train.y[order] == column] for column in task.classes]
        return torch.cat([rows[: min(self.options.held, len(rows) // 10)] for rows in of_class])

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Scale and shift of every task so far."""
        groups = self._groups(task)
        self.scale, self.shift = torch.ones_like(self.scale), torch.zeros_like(self.shift)
        seen = groups >= 0
        if self.options.form == "norms":
            lengths = net.effective_state()["head.weight"].detach().norm(dim=1).cpu()
            self.scale[seen] = aligning(lengths[seen], groups[seen]).to(self.scale)
            return
        held = self._held_out(task)
        self.kept[task.index] = Examples(task.train.x[held], task.train.y[held])
        found = self._examples(task, remembered)
        found = found.take(seen[found.y].nonzero().squeeze(1))  # where tasks are blurred, later classes came early
        logits = logits_of(net, self.context, found.x).cpu().double()
        columns = seen.nonzero().squeeze(1)
        places = torch.full_like(groups, -1)
        places[columns] = torch.arange(len(columns))
        scale, shift, calls = fit_bias(logits[:, columns], places[found.y], groups[columns])
        net.meter.charge(3 * calls * len(logits) * len(columns))
        self.scale[columns], self.shift[columns] = scale.to(self.scale), shift.to(self.shift)

    def _examples(self, task: Task, remembered: Examples | None) -> Examples:
        """What was held out of every task; where nothing was, what is remembered."""
        whole = self.kept.keys() >= {*range(task.index + 1)}
        if whole and any(len(own) for own in self.kept.values()):
            return Examples.joined(list(self.kept.values()))
        if remembered is None and task.index:
            raise ConfigError(
                "there is nothing of earlier tasks to fit a bias on: nothing was held out, and nothing is remembered.",
                remedy="Train with {parts.readout:bias}, or use {readout.form:norms}.",
            )
        return balanced(self.context, task, remembered, 1.0)

    def _groups(self, task: Task) -> Tensor:
        """The last task so far of each column; -1 of those to come."""
        groups = torch.full((self.context.classes,), -1)
        for index, columns in enumerate(self.context.task_classes[: task.index + 1]):
            groups[list(columns)] = index
        return groups

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """Those of the head, scaled and shifted."""
        return self.scale * net(x, task).logits + self.shift

    def folded(self, state: Params) -> Params:
        """A head that is scaled and shifted."""
        weight, bias = self.scale[:, None] * state["head.weight"], self.scale * state["head.bias"] + self.shift
        return {**state, "head.weight": weight.detach(), "head.bias": bias.detach()}

    def state_dict(self) -> State:
        """Scales, shifts and what is held out."""
        kept = {index: {"x": own.x, "y": own.y} for index, own in self.kept.items()}
        return {"scale": self.scale.clone(), "shift": self.shift.clone(), "kept": kept}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before; from that of the head, uncorrected."""
        if not state:
            return
        check_columns(len(self.scale), state["scale"], state["shift"])
        self.scale, self.shift = (state[name].clone().to(self.context.device) for name in ("scale", "shift"))
        self.kept = {index: Examples(own["x"].cpu(), own["y"].cpu()) for index, own in state["kept"].items()}


def fit_bias(logits: Tensor, labels: Tensor, groups: Tensor) -> tuple[Tensor, Tensor, int]:
    """Scale and shift of each column, the same within a group, that minimise the cross-entropy; and the calls it took.

    Scales are positive: the order within a group stays.
    """
    _, places = torch.unique(groups, return_inverse=True)
    own = logits.new_zeros(2, int(places.max()) + 1, requires_grad=True)  # log scales, shifts
    solver = torch.optim.LBFGS([own], max_iter=200, line_search_fn="strong_wolfe")
    calls = 0

    def loss() -> Tensor:
        nonlocal calls
        calls += 1
        solver.zero_grad()
        corrected = own[0].exp()[places] * logits + own[1][places]
        value = cross_entropy(corrected, labels) + PULL * own.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        solver.step(loss)  # type: ignore[no-untyped-call]
    scale, shift = own.detach()
    return scale.exp()[places], shift[places], calls


def aligning(lengths: Tensor, groups: Tensor) -> Tensor:
    """Scales that give the columns of every group the same mean length, that of all columns: Eq. 8 (WA).

    >>> aligning(torch.tensor([1.0, 1.0, 3.0, 3.0]), torch.tensor([0, 0, 1, 1])).tolist()
    [2.0, 2.0, 0.6666666865348816, 0.6666666865348816]
    """
    means = {group: lengths[groups == group].mean().clamp(min=1e-12) for group in groups.tolist()}
    return lengths.mean() / torch.stack([means[group] for group in groups.tolist()])
