"""EsaCL's sparsity: prune in one shot when a task ends, freeze what is kept, expand into the rest for the next task."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.nets.traits import NetTraits
from esacl.options import option
from esacl.ranking import largest, largest_of_all
from esacl.sparsity.base import DenseOptions, SparsityStrategy
from esacl.sparsity.expansion import expand
from esacl.sparsity.masks import packed, unpacked
from esacl.sparsity.quotas import kept_after
from esacl.streams.base import Examples, Task
from esacl.types import Params, State


@dataclass(frozen=True, slots=True)
class EsaclOptions(DenseOptions):
    """Settings of pruning. `sharpness` and `polytope` choose the gradient and update rules (see `methods/`)."""

    level: float = option(0.8, "share of the prunable weights that are zero after the last task", low=0, high=0.9999)
    quota: Literal["even", "geometric", "literal"] = option("even", "how the tasks share the weights that are kept")
    ratio: float = option(0.5, "geometric quota: share of what is left that a task takes", low=0.001, high=0.999)
    scope: Literal["global", "adaptive", "layer"] | None = option(
        None, "magnitudes compete over all layers; relative to their layer; or within it (default: by network)"
    )
    expand: Literal["kaiming", "zero"] = option("kaiming", "how free weights start into the next task")
    recalibrate: Literal["no", "mixed", "memory"] = option(
        "memory", "BatchNorm statistics anew after pruning: from the task's images and the memory, or the memory alone"
    )
    sharpness: bool = option(True, "the sharpness-aware gradient rule; false: the plain one (w/o SA)")
    polytope: bool = option(True, "the Frank-Wolfe update rule; false: SGD (w/o SP)")


class Esacl(SparsityStrategy):
    """One-shot magnitude pruning without retraining; kept weights never move again.

    Deviation: a task keeps its quota of the weights, not (1 − s) of all of them (docs/decisions.md).
    """

    Options: ClassVar[type[Any]] = EsaclOptions
    prunes = True

    @classmethod
    def defaults(cls, net: NetTraits, options: Mapping[str, Any]) -> dict[str, Any]:
        """How layers compete: without BatchNorm the magnitudes of their weights are comparable."""
        return {"scope": "adaptive" if net.batchnorm else "global"}

    @property
    def target(self) -> float:
        """Sparsity after the last task."""
        return float(self.options.level)

    def attach(self, net: Network) -> None:
        """Nothing is kept yet."""
        self.kept: Params = {
            name: torch.zeros_like(net.stored[name], dtype=torch.bool) for name in net.partition.needed()
        }
        self._any = False

    def frozen(self) -> Params:
        """What earlier tasks kept."""
        return self.kept if self._any else {}

    def constrained(self) -> Collection[str]:
        """Layers with something kept."""
        return self.kept.keys() if self._any else ()

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """Kept weights stay, bit for bit."""
        return torch.where(self.kept[name], before, after)

    @torch.no_grad()
    def begin_task(self, net: Network, task: Task) -> None:
        """Expand: free weights start anew."""
        if task.index == 0:
            return
        free = {name: ~kept for name, kept in self.kept.items()}
        expand(net.stored, free, self.options.expand, self.context.seed, task.index)

    @torch.no_grad()
    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Prune, freeze, recalibrate."""
        free = {name: net.stored[name].abs().masked_fill_(kept, 0.0) for name, kept in self.kept.items()}
        for name, chosen in self._chosen(free, task.index).items():
            self.kept[name] |= chosen & (free[name] > 0)  # a zero is not worth a place
            net.stored[name].masked_fill_(~self.kept[name], 0.0)
        self._any = any(bool(kept.any()) for kept in self.kept.values())
        self.recalibrate(net, task, remembered)

    def _chosen(self, sizes: Params, task: int) -> Params:
        """Masks of the free weights that this task may keep."""
        if self.options.scope == "layer":
            return {name: largest(size, self._quota([name], task)) for name, size in sizes.items()}
        scores = list(sizes.values())
        if self.options.scope != "global":
            scores = [adaptive_scores(size) for size in scores]
        masks = largest_of_all(scores, self._quota(list(sizes), task))
        return {name: mask.to(sizes[name].device) for name, mask in zip(sizes, masks)}

    def _quota(self, names: list[str], task: int) -> int:
        """How many weights of these layers a task may add to what is kept."""
        total = sum(self.kept[name].numel() for name in names)
        budget = round((1 - self.options.level) * total)
        allowed = kept_after(self.options.quota, budget, task, self.context.tasks, self.options.ratio)
        return allowed - sum(int(self.kept[name].sum()) for name in names)

    def masks(self, net: Network) -> list[Params]:
        """One for all tasks."""
        return [self.kept]

    def state_dict(self) -> State:
        """What is kept."""
        return {"kept": packed(self.kept)}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        for name, mask in unpacked(state["kept"], self.kept).items():
            self.kept[name].copy_(mask)
        self._any = any(bool(kept.any()) for kept in self.kept.values())


def adaptive_scores(sizes: Tensor) -> Tensor:
    """Square of each magnitude over the sum of the squares that are not smaller (LAMP; Lee et al. 2021).

    What going costs a layer, relative to what would be left of its free weights: comparable between layers. The
    largest free weight of a layer scores 1. Computed on the CPU, as not every device has double precision.

    >>> adaptive_scores(torch.tensor([1.0, 2.0, 1.0]))
    tensor([0.1667, 1.0000, 0.2000], dtype=torch.float64)
    """
    ordered, order = sizes.detach().flatten().cpu().double().square().sort(stable=True)
    left = ordered.flip(0).cumsum(0).flip(0)
    scores = torch.empty_like(ordered)
    scores[order] = ordered / left.clamp(min=torch.finfo(torch.float64).tiny)
    return scores.view(sizes.shape)
