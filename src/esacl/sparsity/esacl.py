"""EsaCL's sparsity: prune in one shot when a task ends, freeze what is kept, expand into the rest for the next task."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil, exp
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.nets.traits import NetTraits
from esacl.options import option
from esacl.problem import Problem
from esacl.ranking import largest, largest_of_all
from esacl.sparsity.base import DenseOptions, SparsityStrategy
from esacl.sparsity.channels import Channels
from esacl.sparsity.expansion import expand
from esacl.sparsity.masks import packed, unpacked
from esacl.sparsity.quotas import kept_after
from esacl.streams.base import Examples, Task
from esacl.streams.loading import cuts
from esacl.types import UNKNOWN_TASKS, Params, State


@dataclass(frozen=True, slots=True)
class EsaclOptions(DenseOptions):
    """Settings of pruning. `sharpness` and `polytope` choose the gradient and update rules (see `methods/`)."""

    level: float = option(0.8, "share of the prunable weights that are zero after the last task", low=0, high=0.9999)
    unit: Literal["weight", "channel"] = option(
        "weight",
        "what is pruned; channel: whole channels, which are removed, so that later tasks train a smaller network",
    )
    form: Literal["freeze", "cycle"] | None = option(
        None,
        "freeze: kept weights never move again (Algorithm 1); cycle: all weights learn in every task, and the memory "
        "protects earlier ones (default: cycle with BatchNorm and a memory unless polytope is given, else freeze)",
    )
    quota: Literal["even", "geometric", "literal"] | None = option(
        None, "freeze: how the tasks share what is kept; cycle: what is zero (default: even; cycle: geometric)"
    )
    ratio: float = option(0.5, "geometric quota: share of what is left that a task takes", low=0.001, high=0.999)
    start: float = option(
        0.4, "cycle: share of a task's epochs before the smallest weights are pulled to zero", low=0, high=0.99
    )
    pull: float = option(6.0, "cycle: the pull shrinks these weights by a factor of e^pull", low=0.1, high=50)
    scope: Literal["global", "adaptive", "layer"] | None = option(
        None, "magnitudes compete over all layers; relative to their layer; or within it (default: by network)"
    )
    expand: Literal["kaiming", "zero", "initial"] | None = option(
        None,
        "freeze: how free weights start into the next task: drawn, zero, or with the values that training began with "
        "(default: initial with pre-trained weights, else kaiming)",
    )
    recalibrate: Literal["no", "mixed", "memory"] | None = option(  # type: ignore[assignment]  # None: by form
        None, "BatchNorm statistics anew after pruning, from these images (default: mixed; cycle: no)"
    )
    sharpness: bool = option(True, "the sharpness-aware gradient rule; false: the plain one (w/o SA)")
    polytope: bool | None = option(None, "the Frank-Wolfe update rule; false: SGD (default: true; cycle: false)")


OF_THE_PULL = ("start", "pull")
"""Options that only the cycle has a use for."""


class Esacl(SparsityStrategy):
    """One-shot magnitude pruning without retraining, at the end of every task, in one of two forms.

    freeze: kept weights never move again and the others start anew: Algorithm 1. Deviation: a task keeps its quota of
    the weights, not (1 − s) of all of them (docs/decisions.md).

    cycle: all weights learn in every task. In its last epochs the smallest ones are pulled to zero, w ← (1 − η) w
    after each step, so that pruning them changes nothing; in the next task they start from zero. Deviation: nothing is
    frozen, and SGD takes the place of Frank-Wolfe.
    """

    Options: ClassVar[type[Any]] = EsaclOptions
    prunes = True

    @classmethod
    def beside(cls, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Without a memory only frozen weights remember; a constraint that keeps BatchNorm's statistics needs them."""
        free = "buffer" in options["objective"] or options["sparsity"]["unit"] == "channel"
        form = {} if free else {"form": "freeze"}
        return form | ({"recalibrate": "no"} if "norms" in options["constraint"] else {})

    @classmethod
    def defaults(cls, net: NetTraits, options: Mapping[str, Any]) -> dict[str, Any]:
        """The form, and what belongs to it (docs/decisions.md)."""
        channels = options["unit"] == "channel"
        cycles = channels or (net.batchnorm and options["polytope"] is None)
        form = options["form"] or ("cycle" if cycles else "freeze")
        freezes = form == "freeze"
        return {
            "form": form,
            "quota": "even" if freezes else "literal" if channels else "geometric",
            "recalibrate": "mixed" if freezes else "no",
            "polytope": freezes and not net.pretrained,  # it shrinks what it does not choose
            "expand": "initial" if net.pretrained else "kaiming",
            "scope": "layer" if channels else scope_for(net),
        }

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """A form that the update rule does not fit, or that has no use for an option."""
        own = options["sparsity"]
        for name in OF_THE_PULL:
            usual = getattr(EsaclOptions(), name)  # which is recorded for either form
            if own["form"] == "freeze" and own[name] != usual:
                return Problem(
                    "{given} is of use for {sparsity.form:cycle} only, which pulls weights to zero, but the form is "
                    "'freeze'.",
                    f"sparsity.{name}",
                    own[name],
                    remedy="Leave it out, or use {sparsity.form:cycle}.",
                )
        if own["unit"] == "channel" and own["form"] == "freeze":
            return Problem(
                "{given} holds what earlier tasks kept, but with {sparsity.unit:channel} what stays learns on.",
                "sparsity.form",
                "freeze",
                remedy="Use {sparsity.form:cycle}, or the method grow, which gives each task channels of its own.",
            )
        if own["form"] == "cycle" and own["polytope"] and own["unit"] != "channel":
            return Problem(
                "{sparsity.form:cycle} trains by SGD and pulls weights to zero by itself, but {given} was given.",
                "sparsity.polytope",
                True,
                remedy="Leave it out, or use {sparsity.form:freeze}.",
            )
        return None

    @classmethod
    def switched_off(cls, name: str, options: Mapping[str, Any]) -> tuple[str, list[str]]:
        """The form leaves Frank-Wolfe out."""
        off, on = super().switched_off(name, options)
        if name != "polytope" or options.get("form") != "cycle":
            return off, on
        return "form:cycle", ["form:freeze", *(on if options["polytope"] is False else [])]

    @property
    def target(self) -> float:
        """Sparsity after the last task."""
        return float(self.options.level)

    def attach(self, net: Network) -> None:
        """Nothing is kept yet."""
        self.channels = Channels(net, self.options.scope or "layer") if self.removes_channels else None
        self.kept: Params = {
            name: torch.zeros_like(net.stored[name], dtype=torch.bool)
            for name in net.partition.needed()
            if self.channels is None
        }
        keeps = self.options.expand == "initial" and self.freezes
        self.initial: Params = {name: net.stored[name].detach().clone() for name in self.kept} if keeps else {}
        self._any = False
        self.task = 0
        self.steps = 1  # of an epoch
        self._learns = False  # cycle: whether zeros may become weights again in this epoch
        self._shrinks: Params = {}  # cycle: what each weight is multiplied by after a step; nothing before the pull

    @property
    def removes_channels(self) -> bool:
        """Whether whole channels go, for good."""
        return bool(self.options.unit == "channel")

    @property
    def freezes(self) -> bool:
        """Whether kept weights never move again."""
        return bool(self.options.form != "cycle")

    def frozen(self) -> Params:
        """What earlier tasks kept."""
        return self.kept if self._any and self.freezes else {}

    def constrained(self) -> Collection[str]:
        """Layers with something kept, or with something to pull."""
        return (self.kept.keys() if self._any else ()) if self.freezes else self._shrinks.keys()

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """Kept weights stay, bit for bit; or the smallest ones shrink."""
        return torch.where(self.kept[name], before, after) if self.freezes else after * self._shrinks[name]

    @torch.no_grad()
    def begin_task(self, net: Network, task: Task) -> None:
        """Expand: free weights start anew, or learn on from zero."""
        self.task, self.steps = task.index, len(cuts(len(task.train), self.context.batch_size)) + 1
        if task.index > 0 and self.freezes:
            free = {name: ~kept for name, kept in self.kept.items()}
            expand(net.stored, free, self.options.expand or "kaiming", self.context.seed, task.index, self.initial)

    @torch.no_grad()
    def begin_epoch(self, net: Network, epoch: int) -> None:
        """Choose anew, towards the end of a task, which weights are pulled to zero: those that pruning would take."""
        first = min(ceil(self.options.start * self.context.epochs - 1e-9), self.context.epochs - 1)
        self._shrinks, self._learns = {}, not self.freezes
        if self.freezes or epoch < first:
            return
        steps = self.steps * self.context.epoch_part * (self.context.epochs - first)
        factor = exp(-self.options.pull / steps)
        if self.channels is not None:
            self._shrinks = self.channels.shrinking(self._stay(self.channels, self.task), factor)
            return
        sizes = {name: net.stored[name].abs() for name in self.kept}
        for name, chosen in self._chosen(sizes, self.task).items():
            self._shrinks[name] = torch.where(chosen, 1.0, factor)

    def surviving_channels(self, net: Network, task: Task) -> Mapping[str, Tensor]:
        """Those that are worth their weights."""
        if self.channels is None:
            return {}
        stay, units = self._stay(self.channels, task.index), self.channels.units()
        return {group: chosen for group, chosen in stay.items() if len(chosen) < units[group]}

    def _stay(self, channels: Channels, task: int) -> dict[str, Tensor]:
        """Channels that stay after a task."""
        return channels.kept(self._left(channels.weights, task))

    @torch.no_grad()
    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Prune, freeze or not, recalibrate; channels are gone by now."""
        if not self.freezes:
            for kept in self.kept.values():
                kept.zero_()
        free = {name: net.stored[name].abs().masked_fill_(kept, 0.0) for name, kept in self.kept.items()}
        for name, chosen in self._chosen(free, task.index).items() if free else ():
            self.kept[name] |= chosen & (free[name] > 0)  # a zero is not worth a place
            net.stored[name].masked_fill_(~self.kept[name], 0.0)
        self._any = any(bool(kept.any()) for kept in self.kept.values())
        self._shrinks, self._learns = {}, False
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
        """How many weights of these layers a task may add to what is kept; or keep, where nothing is frozen."""
        total = sum(self.kept[name].numel() for name in names)
        if not self.freezes:
            return self._left(total, task)
        budget = round((1 - self.options.level) * total)
        allowed = kept_after(self.options.quota or "even", budget, task, self.context.tasks, self.options.ratio)
        return allowed - sum(int(self.kept[name].sum()) for name in names)

    def _left(self, total: int, task: int) -> int:
        """cycle: how many of so many weights there are after a task."""
        endless = self.context.tasks == UNKNOWN_TASKS  # then there is no later task to prune more in
        quota = "literal" if endless else self.options.quota or "geometric"
        gone = total - round((1 - self.options.level) * total)
        return total - kept_after(quota, gone, task, self.context.tasks, self.options.ratio)

    def density(self, net: Network) -> dict[str, float]:
        """Share of non-zero weights; all count in an epoch in which all of them learn."""
        return dict.fromkeys(net.partition.prunable, 1.0) if self._learns else super().density(net)

    def masks(self, net: Network) -> list[Params]:
        """One for all tasks."""
        return [self.kept] if self.channels is None else []

    def state_dict(self) -> State:
        """What is kept."""
        initial = {"initial": dict(self.initial)} if self.initial else {}
        return {**initial, "kept": packed(self.kept), "task": self.task, "steps": self.steps}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        for name, mask in unpacked(state["kept"], self.kept).items():
            self.kept[name].copy_(mask)
        self._any = any(bool(kept.any()) for kept in self.kept.values())
        self.initial = {name: value.to(self.kept[name].device) for name, value in state.get("initial", {}).items()}
        self.task, self.steps = state["task"], state["steps"]


def scope_for(net: NetTraits) -> str:
    """How layers compete: without BatchNorm the magnitudes of their weights are comparable."""
    return "adaptive" if net.batchnorm else "global"


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
