"""SparCL's sparsity (Wang et al. 2022): few live weights that change places (TDM), and few of them move (DGM)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.backbones import Block
from esacl.nets.network import Network
from esacl.nets.traits import NetTraits
from esacl.options import option
from esacl.ranking import largest
from esacl.rng import generator
from esacl.sparsity.base import DenseOptions, SparsityStrategy
from esacl.sparsity.masks import pack, unpack
from esacl.sparsity.rewiring import Moment, even_counts, fittest, grown, moment
from esacl.streams.base import Examples, Task
from esacl.types import Params, State


@dataclass(frozen=True, slots=True)
class SparclOptions(DenseOptions):
    """Settings of SparCL: those of the published script, with its 50 epochs a task as shares of a task's epochs.

    The script keeps a fifth of a layer's gradients where a quarter of its weights live: 0.8 of the live ones (`share`).
    """

    level: float = option(0.8, "share of zeros in the masked layers when a task ends", low=0, high=0.9999)
    layers: Literal["blocks", "all"] = option(
        "blocks", "masked layers: 3×3 convolutions of residual blocks (networks without blocks: all), or all prunable"
    )
    rule: Literal["paper", "code"] = option("paper", "how masks change: as the paper tells it, or as its code does it")
    grow: Literal["importance", "random"] | None = option(
        None, "which weights come to life: those with the largest gradients, or any (default: the rule's own)"
    )
    alpha: float = option(0.5, "α: weight of the present batch's gradient in the importance", low=0, high=1_000_000)
    beta: float = option(0.5, "β: weight of the memory's gradient in the importance", low=0, high=1_000_000)
    adjust: float = option(0.01, "share of a layer's weights that is added, or exchanged, at a time", low=0, high=1)
    interval: float = option(0.1, "share of a task's epochs from one exchange to the next", low=0.001, high=1)
    tdm: bool = option(True, "dynamic masks (TDM); false: the first mask stays")
    ddr: bool = option(True, "remove data that are learnt for good (DDR); false: all data, all the time")
    dgm: bool = option(True, "move only weights with large gradients (DGM); false: all that are live")
    share: float = option(0.8, "DGM: share of a layer's live weights that may move", low=0.001, high=1)
    refresh: int = option(30, "DGM: steps after which it is chosen anew which may move", low=1, high=1_000_000)


class Sparcl(SparsityStrategy):
    """One mask for all tasks, of the same density in every masked layer; weights outside of it are 0 at all times.

    Importance of a weight = |w| + α · |gradient on the batch| + β · |gradient on the memory|: Eq. 1 (CWI). The paper's
    rule expands the masks when a later task starts, exchanges the least important weights at intervals, and shrinks
    the masks when the task ends. The code's rule has a schedule of its own (docs/methods/sparcl.md).

    Deviation: DGM holds weights where they are, not their gradients: momentum and weight decay would move them all the
    same. Under plain SGD without either of them the two are the same.
    """

    Options: ClassVar[type[Any]] = SparclOptions
    prunes = True
    observes_gradients = True

    @classmethod
    def defaults(cls, net: NetTraits, options: Mapping[str, Any]) -> dict[str, Any]:
        """How masks grow, for each rule."""
        return {"grow": "importance" if options["rule"] == "paper" else "random"}

    @property
    def target(self) -> float:
        """Sparsity of the masked layers at the end of every task; `density` has the other layers, too."""
        return float(self.options.level)

    @torch.no_grad()
    def attach(self, net: Network) -> None:
        """The first mask: the largest initial weights of each layer. The others are 0 from now on."""
        self._weights = {name: net.stored[name] for name in net.partition.needed()}
        self._masked = block_convolutions(net) if self.options.layers == "blocks" else net.partition.prunable
        sizes = {name: self._weights[name].numel() for name in self._masked}
        self._base = even_counts(sizes, 1 - self.options.level)
        most = {name: round(self.options.adjust * size) for name, size in sizes.items()}
        self._extra = {name: min(most[name], self._base[name] // 2) for name in sizes}
        self.live: Params = {name: torch.ones_like(weight, dtype=torch.bool) for name, weight in self._weights.items()}
        for name in self._masked:
            self._keep(name, largest(self._weights[name].abs(), self._base[name]))
        self.slopes: Params = {}  # what the gradients last looked at add to the importance
        self.moving: Params = {}  # what DGM lets move until it chooses anew
        self.task = self._epoch = 0
        self._step = 0  # of the epoch
        self._due: Moment | None = None  # what waits for the gradients of the first step

    def constrained(self) -> Collection[str]:
        """Layers with a mask."""
        return self._masked

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """Outside of the mask 0; inside, what DGM does not let move stays."""
        if name in self.moving:
            after = torch.where(self.moving[name], after, before)
        return torch.where(self.live[name], after, 0.0)

    def begin_task(self, net: Network, task: Task) -> None:
        """Which one it is."""
        self.task = task.index

    def begin_epoch(self, net: Network, epoch: int) -> None:
        """Change the masks: at once by the code's rule, with the gradients of the first step by the paper's."""
        self._epoch, self._step, self._due = epoch, 0, None
        if not self.options.tdm:
            return
        now = moment(epoch, self.context.epochs, self.options.interval)
        if self.options.rule == "code":
            self._change(now, epoch)
        elif now == "adjust" or (now == "expand" and self.task > 0):
            self._due = now

    def observe_gradients(self, gradients: Params, memory: Callable[[], Params]) -> None:
        """Look at gradients: for the importance, once an epoch or (the code's rule) at the last; and for DGM."""
        if self.options.tdm and self.options.rule == "code":
            self.slopes = self._sensitivity(gradients, {})
        elif self.options.tdm and self._step == 0:
            self.slopes = self._sensitivity(gradients, memory())
            self._change(self._due, self._epoch)
            self._due = None
        if self.options.dgm and self._step % self.options.refresh == 0:
            self.moving = {name: self._movable(name, gradients.get(name)) for name in self._masked}
        self._step += 1

    def _sensitivity(self, gradients: Params, remembered: Params) -> Params:
        """What the gradients add to the importance of each weight."""
        slopes = {name: self.options.alpha * gradients[name].abs() for name in self._masked if name in gradients}
        for name in slopes.keys() & remembered.keys():
            slopes[name] += self.options.beta * remembered[name].abs()
        return slopes

    def _movable(self, name: str, gradient: Tensor | None) -> Tensor:
        """The live weights with the largest gradients; all of them where no gradient is known."""
        live = self.live[name]
        if gradient is None:
            return live.clone()
        return fittest(live, gradient.abs(), max(1, round(self.options.share * int(live.sum()))))

    @torch.no_grad()
    def _change(self, now: Moment | None, epoch: int) -> None:
        """Drop the least important live weights, then let others come to life, at value 0."""
        if now is None:
            return
        for name in self._masked:
            few, many = self._counts(name, now)
            self._keep(name, fittest(self.live[name], self.importance(name), few))
            if many > few:
                self.live[name].copy_(grown(self.live[name], self._promise(name, epoch), many))

    def _promise(self, name: str, epoch: int) -> Tensor:
        """By what weights come to life: the importance of a weight of 0, or a number drawn for it."""
        if self.options.grow == "importance" and name in self.slopes:
            return self.slopes[name]
        draw = generator(self.context.seed, "grow", self.task, epoch, name)
        return torch.rand(self.live[name].shape, generator=draw).to(self.live[name].device)

    def _counts(self, name: str, now: Moment) -> tuple[int, int]:
        """Live weights of a layer after dropping, and after growing."""
        base, extra, size = self._base[name], self._extra[name], self.live[name].numel()
        if now == "expand":
            return base, min(base + extra, size)
        if now == "shrink":
            return base, base
        after = base if self.options.rule == "code" else int(self.live[name].sum())
        return after - extra, after

    def _keep(self, name: str, live: Tensor) -> None:
        """Only these live."""
        self.live[name].copy_(live)
        self._weights[name].masked_fill_(~self.live[name], 0.0)

    def importance(self, name: str) -> Tensor:
        """|w| and what the gradients add to it."""
        size = self._weights[name].detach().abs()
        return size + self.slopes[name] if name in self.slopes else size

    @torch.no_grad()
    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Shrink to the level asked for, recalibrate."""
        if self.options.tdm:
            self._change("shrink", self.context.epochs)
        self.slopes = {}  # of a task that is over
        self.recalibrate(net, task, remembered)

    def masks(self, net: Network) -> list[Params]:
        """One for all tasks."""
        return [self.live]

    def density(self, net: Network) -> dict[str, float]:
        """Share of live weights, some of which may be 0; what the first step of the epoch will add counts already."""
        counts = {name: int(live.sum()) for name, live in self.live.items()}
        if self._due is not None:
            counts |= {name: self._counts(name, self._due)[1] for name in self._masked}
        return {name: count / self.live[name].numel() for name, count in counts.items()}

    def state_dict(self) -> State:
        """The mask, and what the gradients last looked at add to the importance."""
        live = {name: pack(mask) for name, mask in self.live.items()}
        return {"task": self.task, "live": live, "slopes": {name: value.clone() for name, value in self.slopes.items()}}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.task = state["task"]
        for name, mask in self.live.items():
            mask.copy_(unpack(state["live"][name], mask.shape))
        self.slopes = {name: value.clone().to(self.context.device) for name, value in state["slopes"].items()}


def block_convolutions(net: Network) -> tuple[str, ...]:
    """Weights of the 3×3 convolutions of residual blocks; of every prunable layer in a network without such blocks."""
    blocks = [name for name, module in net.model.named_modules() if isinstance(module, Block)]
    return tuple(f"{block}.{own}.weight" for block in blocks for own in ("conv1", "conv2")) or net.partition.prunable
