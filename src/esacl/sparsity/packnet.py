"""PackNet (Mallya & Lazebnik 2018): train the free weights, prune, retrain what is kept, own it; task after task."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.options import option
from esacl.ranking import largest
from esacl.sparsity.base import Phase
from esacl.sparsity.expansion import expand
from esacl.sparsity.isolation import Isolated, IsolationOptions
from esacl.sparsity.quotas import kept_after
from esacl.streams.base import Examples, Task
from esacl.types import Params, State

FREE = 0  # owner of a weight that belongs to no task; task t owns what is marked t + 1


@dataclass(frozen=True, slots=True)
class PacknetOptions(IsolationOptions):
    """Settings of PackNet. `share` and `retrain` are the authors' (0.5 to 0.75; 10 epochs after 20)."""

    level: float = option(0.5, "quota even: share of weights that are free after the last task", low=0, high=0.9999)
    quota: Literal["even", "share"] = option(
        "even", "all tasks together keep 1 − level, evenly; or each prunes the same share of what is free"
    )
    share: float = option(0.5, "quota share: share of a layer's free weights that a task prunes", low=0.01, high=0.9999)
    retrain: float = option(0.5, "epochs of retraining, relative to those before (at least one)", low=0.01, high=10)
    expand: Literal["zero", "kaiming"] = option("zero", "how free weights start into the next task")


class Packnet(Isolated):
    """A task answers with the weights of its own and of the tasks before it.

    Deviation: quotas leave every task the same number of weights (docs/decisions.md).
    """

    Options: ClassVar[type[Any]] = PacknetOptions

    @property
    def target(self) -> float:
        """Sparsity after the last task."""
        if self.options.quota == "share":
            return float(self.options.share**self.context.tasks)
        return float(self.options.level)

    def attach(self, net: Network) -> None:
        """Every weight is free."""
        kind = torch.uint8 if self.context.tasks <= torch.iinfo(torch.uint8).max else torch.int16
        self.owner: Params = {
            name: torch.full_like(net.stored[name], FREE, dtype=kind) for name in net.partition.needed()
        }
        self.pruned = False  # whether the task that is being learnt has been pruned and is retrained
        super().attach(net)

    def taken(self) -> Params:
        """What earlier tasks own; while a task is retrained, everything that it has not kept, the zeros included."""
        if self.pruned:
            return {name: owner != self.done + 1 for name, owner in self.owner.items()}
        return {name: owner != FREE for name, owner in self.owner.items()} if self.done else {}

    def used(self, task: int) -> Params:
        """Its own weights and those of the tasks before it."""
        return {name: (owner != FREE) & (owner <= task + 1) for name, owner in self.owner.items()}

    def masks(self, net: Network) -> list[Params]:
        """What each task owns: the others follow."""
        return [{name: owner == task + 1 for name, owner in self.owner.items()} for task in range(self.done)]

    def density(self, net: Network) -> dict[str, float]:
        """All weights until a task is pruned, also those that start at zero."""
        if self.open and not self.pruned:
            return dict.fromkeys(self.owner, 1.0)
        return super().density(net)

    def planned_epochs(self) -> int:
        """Training and retraining."""
        return self.context.epochs + self._retraining()

    def next_phase(self, task: int, done: int) -> Phase | None:
        """Train, then retrain."""
        return [Phase("fit", self.context.epochs), Phase("retrain", self._retraining()), None][done]

    def _retraining(self) -> int:
        epochs: float = self.options.retrain * self.context.epochs
        return max(1, round(epochs))

    def begin_task(self, net: Network, task: Task) -> None:
        """Expand: free weights start anew, those of the first task as the network has them."""
        super().begin_task(net, task)
        if self.done:
            free = {name: owner == FREE for name, owner in self.owner.items()}
            expand(net.stored, free, self.options.expand, self.context.seed, task.index)

    def end_phase(self, net: Network, task: Task, phase: Phase) -> None:
        """Prune when the task is trained."""
        if phase.name == "fit":
            self._prune(net)

    @torch.no_grad()
    def _prune(self, net: Network) -> None:
        """The largest free weights of each layer become the task's own, the others zero."""
        for name, owner in self.owner.items():
            weight = net.stored[name]
            sizes = weight.abs().masked_fill_(owner != FREE, 0.0)
            chosen = largest(sizes, self._quota(owner)) & (sizes > 0)  # a zero is not worth a place
            owner.masked_fill_(chosen, self.done + 1)
            weight.masked_fill_(owner == FREE, 0.0)
        self.pruned = True
        self.hold()

    def _quota(self, owner: Tensor) -> int:
        """How many weights of a layer the task may keep."""
        kept = int(owner.count_nonzero())
        free = owner.numel() - kept
        if self.options.quota == "share":
            pruned: float = self.options.share * free
            return free - round(pruned)
        budget = round((1 - self.options.level) * owner.numel())
        return kept_after("even", budget, self.done, self.context.tasks) - kept

    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Own what was kept and retrained."""
        self.pruned = False
        super().end_task(net, task, remembered)

    def task_state(self) -> Params:
        """The owner of each weight (0: nobody, t + 1: task t), and biases and BatchNorm of each task."""
        return {**{f"owner.{name}": owner for name, owner in self.owner.items()}, **super().task_state()}

    def state_dict(self) -> State:
        """The owners, and whether the present task is pruned."""
        owner = {name: owner.clone() for name, owner in self.owner.items()}
        return {**super().state_dict(), "owner": owner, "pruned": self.pruned}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        for name, owner in self.owner.items():
            owner.copy_(state["owner"][name])
        self.pruned = state["pruned"]
        super().load_state_dict(state)
