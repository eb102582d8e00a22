"""Growth: a trunk that the first task trains and nothing changes any more, and a branch of channels for each task."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from esacl.errors import ConfigError
from esacl.nets.branches import TRUNK, Branches
from esacl.nets.connections import Connection, connections
from esacl.nets.network import Network
from esacl.nets.widths import widths_of
from esacl.options import option
from esacl.part import Part
from esacl.problem import Problem
from esacl.rng import generator
from esacl.sparsity.base import SparsityStrategy
from esacl.sparsity.growth import Growth, within
from esacl.streams.base import Examples, Task
from esacl.types import UNKNOWN_TASKS, Columns, Outputs, State


@dataclass(frozen=True, slots=True)
class GrowOptions:
    """Settings of growth."""

    level: float | None = option(
        None, "share of the prunable weights that are zero after the last task (default: every channel is used)",
        low=0, high=0.9999,
    )  # fmt: skip
    trunk: int | None = option(
        None, "stages that all tasks share; the first task trains them (default: half of the backbone's)", low=0
    )
    trunk_width: float | None = option(
        None, "share of the trunk's channels that are used (default: all; with level, half of the weights at most)",
        low=0.01, high=1,
    )  # fmt: skip
    quota: Literal["even", "first", "geometric"] | None = option(
        None, "how tasks share the branches' channels (default: even; geometric where the number of tasks is unknown)"
    )
    ratio: float = option(
        0.4, "quota first: the first task's share; geometric: share of what is left", low=0.01, high=0.99
    )
    step: Literal["own", "all"] | None = option(
        None, "branches that a step runs: the task's own, or all, of which only its own learns (default: all to replay)"
    )


class Grow(SparsityStrategy):
    """Each task trains channels of its own that read the trunk and themselves; what was trained never moves again.

    Below the head nothing of earlier tasks changes, statistics of BatchNorm included: their features stay the same
    bits. The head adds up what the branches say; a class starts with zeros on the features of other tasks.
    """

    Options: ClassVar[type[Any]] = GrowOptions
    runs_parts = True

    @classmethod
    def beside(cls, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Replayed examples need the logits of all tasks, unless they are rehearsed in the branch alone."""
        return {"step": "all" if _replays(options) else "own"}

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """Replay in other branches than those that a step runs."""
        step, replay = options["sparsity"]["step"], options["objective"].get("replay")
        if step == "own" and _replays(options):
            return Problem(
                "{given} runs the branch of the task alone, but the objective rehearses examples of earlier tasks, "
                "whose classes other branches answer for.",
                "sparsity.step",
                "own",
                remedy="Leave it out, or use {objective.replay:none}, or with er {objective.replay:branch}.",
            )
        if step == "all" and replay == "branch":
            return Problem(
                "{given} runs all branches, but {objective.replay:branch} rehearses in that of the task alone.",
                "sparsity.step",
                "all",
                remedy="Leave it out, or use {objective.replay:batch}.",
            )
        return None

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """The task's, where only its branch runs."""
        return "seen" if options["step"] == "all" else "task"

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """Parts that hold back what cannot move, or need the whole network."""
        objective, gradient, constraint = (parts[slot] for slot in ("objective", "gradient", "constraint"))
        if getattr(objective, "protects", False):
            return (
                f"{objective.__name__} keeps the network near what it was, but growth changes nothing of earlier "
                f"tasks. Use grow alone, or on top of er or der++."
            )
        if getattr(gradient, "fast_weights", False):
            return Problem(
                "{part} calls the whole network with weights of its own, but growth trains one branch.",
                remedy="Use {parts.gradient:plain}.",
                part=gradient.__name__,
            )
        if getattr(constraint, "reads_layers", False):
            return Problem(
                "{part} watches what the layers of the whole network read, but growth runs parts of it, and holds the "
                "others by itself.",
                remedy="Use {parts.constraint:none}.",
                part=constraint.__name__,
            )
        return None

    @property
    def target(self) -> float:
        """Share of zeros among the prunable weights after the last task; before it knows the network, as asked for."""
        if not hasattr(self, "growth"):
            return float(self.options.level or 0)
        return 1 - self.growth.total() / self._stored

    def attach(self, net: Network) -> None:
        """Divide the channels; the first task's are drawn, all others are zero."""
        layers = connections(net.model)
        if still := [one.layer.removeprefix("backbone.") for one in layers if one.weight not in net.stored]:
            raise ConfigError(
                "grow divides the channels of every layer, and freezes the trunk by itself after the first task, but "
                "{layer!r} is frozen from the start.",
                remedy="Use {net.freeze:none}, or another method.",
                layer=still[0],
            )
        sizes = {one.weight: tuple(net.stored[one.weight].shape) for one in layers}
        self._stored = sum(net.stored[name].numel() for name in net.partition.needed())
        self.growth = self._planned(layers, sizes)
        trunk = {group: (0, width) for group, width in self.growth.trunk().items()}
        self.branches = Branches(net, self.growth.stages, trunk)
        self.open = False  # whether a task is being learnt
        given = {name: value.clone() for name, value in self.branches.values(TRUNK).items()}
        self.branches.clear()
        self._add(0)
        self._draw(TRUNK, ())
        pretrained = getattr(net.model, "own", False) or getattr(net.model, "report", None) is not None
        if pretrained and self.growth.slim == 1:
            for name, value in self.branches.values(TRUNK).items():
                value.copy_(given[name])
        self._draw(0, self.context.task_classes[0])
        self._prepare()

    def _planned(self, layers: tuple[Connection, ...], sizes: Mapping[str, tuple[int, ...]]) -> Growth:
        """As wide as the options say."""
        options, tasks, stages = self.options, self.context.tasks, layers[-1].stage + 1
        trunk = stages // 2 if options.trunk is None else options.trunk
        if trunk >= stages:
            raise ConfigError(
                "{given} leaves nothing to the branches: this backbone has {stages} stages.",
                "sparsity.trunk",
                trunk,
                allowed=f"0 to {stages - 1}",
                stages=stages,
            )
        quota = options.quota or ("geometric" if tasks == UNKNOWN_TASKS else "even")
        growth = Growth(layers, sizes, trunk, tasks, quota, options.ratio, slim=options.trunk_width or 1.0)
        if options.level is None:
            return growth
        return within(growth, round((1 - options.level) * self._stored), options.trunk_width)

    def _add(self, task: int) -> None:
        """Give a task the next channels of every group behind the trunk; a network without any left is widened."""
        widths, net = self.growth.branch(task), self.branches.net
        used = self.branches.spans[task - 1] if task else dict.fromkeys(widths, (0, 0))
        spans = {group: (used[group][1], used[group][1] + width) for group, width in widths.items()}
        stored = widths_of(net.model, net.stored) or {}
        wider = {group: after for group, (_, after) in spans.items() if after > stored[group]}
        if wider and net.extra:
            raise ConfigError(
                f"task {task + 1} needs channels that were not planned, and what reads the features besides the head "
                f"({', '.join(net.extra)}) cannot be widened. Say how many tasks there will be, or use er or der++."
            )
        if wider:
            net.widen({**stored, **wider})
        self.branches.spans[task] = spans

    @torch.no_grad()
    def _draw(self, owner: int, classes: Sequence[int]) -> None:
        """Fresh values: Kaiming-normal at the width of the branch, zero biases, neutral BatchNorm.

        In the head only these classes read the branch.
        """
        norms = {norm for one in self.branches.layers for norm in one.norms}
        for name, value in self.branches.values(owner).items():
            layer, _, kind = name.rpartition(".")
            if layer in norms or kind == "bias":
                value.fill_(1.0 if kind in ("weight", "running_var") else 0.0)
                continue
            head = name == self.branches.head.weight
            fresh = torch.zeros(len(classes), value.shape[1]) if head else torch.zeros(value.shape)
            draw = generator(self.context.seed, "grow", owner, name)
            nn.init.kaiming_normal_(fresh, nonlinearity="linear" if head else "relu", generator=draw)
            value[list(classes) if head else slice(None)] = fresh.to(value.device)

    def run(self, x: Tensor) -> Outputs:
        """Trunk and branches: in training mode those that a step runs, else all."""
        last = self.branches.count - 1
        own = self.branches.net.model.training and self.options.step == "own"
        return self.branches(x, (last,) if own else range(last + 1))

    def constrained(self) -> Collection[str]:
        """The head's bias, where other classes do not take part."""
        return ("head.bias",) if self.options.step == "own" else ()

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """Biases of other tasks' classes stay."""
        return torch.where(self._others, before, after)

    def begin_task(self, net: Network, task: Task) -> None:
        """Grow: a branch for the task."""
        if task.index:
            self._add(task.index)
            self._draw(task.index, task.classes)
        self.open = True
        self._prepare()

    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Nothing of the task moves again."""
        self.open = False
        if self.options.step == "own":  # what the branch has learnt of replayed classes serves its features only
            with torch.no_grad():
                self.branches.values(task.index)[self.branches.head.weight][self._others] = 0
        self._prepare()

    def _prepare(self) -> None:
        """Find out anew what moves, and whose biases do not."""
        last = self.branches.count - 1
        learnt = (TRUNK, 0) if last == 0 else (last,)
        self.branches.prepare(learnt if self.open else ())
        self._others = torch.ones(self.context.classes, dtype=torch.bool, device=self.context.device)
        self._others[list(self.context.task_classes[last])] = False

    def state_dict(self) -> State:
        """Whose channels are which."""
        tasks = [self.branches.spans[task] for task in range(self.branches.count)]
        return {"spans": [{group: list(span) for group, span in own.items()} for own in tasks], "open": self.open}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.branches.spans = {TRUNK: self.branches.spans[TRUNK]}
        for task, own in enumerate(state["spans"]):
            self.branches.spans[task] = {group: (first, after) for group, (first, after) in own.items()}
        self.open = state["open"]
        self._prepare()


def _replays(options: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the objective learns from the answers of all tasks to examples of earlier ones."""
    return "buffer" in options["objective"] and options["objective"].get("replay", "batch") == "batch"
