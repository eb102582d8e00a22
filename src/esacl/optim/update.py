"""The update slot: how the weights move, as a torch optimiser and a schedule for its learning rate."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import cos, pi
from typing import Any, ClassVar, Literal

import torch

from esacl.nets.network import Network
from esacl.nets.traits import ByNorm, NetTraits
from esacl.options import option
from esacl.part import Part
from esacl.types import Params


@dataclass(frozen=True, slots=True)
class SgdOptions:
    """Settings of SGD. The defaults of learning rate and momentum depend on the network."""

    lr: float | None = option(None, "learning rate (default: by network)", low=0, high=1_000_000)
    backbone_lr: float | None = option(
        None, "learning rate of all but the head (default: the learning rate)", low=0, high=1_000_000
    )
    momentum: float | None = option(None, "momentum (default: 0 with BatchNorm, 0.9 without)", low=0, high=0.999)
    weight_decay: float = option(0.0, "weight decay", low=0, high=1_000_000)
    schedule: Literal["constant", "cosine"] = option("cosine", "learning rate within each phase of a task")


class UpdateRule(Part):
    """Stochastic gradient descent with momentum; the optimiser is new for every phase of a task."""

    Options: ClassVar[type[Any]] = SgdOptions
    leaves_frozen: ClassVar[bool] = False  # whether its optimiser by itself leaves frozen coordinates as they are
    rates: ClassVar[ByNorm] = ByNorm(batchnorm=0.15, plain=0.03)
    momenta: ClassVar[ByNorm] = ByNorm(batchnorm=0.0, plain=0.9)

    @classmethod
    def defaults(cls, net: NetTraits, options: Mapping[str, Any]) -> dict[str, Any]:
        """Learning rate and momentum for a network (see docs/decisions.md)."""
        return {"lr": cls.rates.suited(net), "momentum": cls.momenta.suited(net)}

    @property
    def momentum(self) -> float:
        """That of SGD; without a network to suit, that of one without BatchNorm."""
        return self.momenta.plain if self.options.momentum is None else float(self.options.momentum)

    @property
    def remedy(self) -> str:
        """What to do when training diverges: a template in which `{update.lr}` stands for the name of that setting."""
        return f"Use a smaller {{update.lr}} than {self.options.lr:g}."

    def build(self, net: Network, frozen: Params, steps: int) -> torch.optim.Optimizer:
        """An optimiser over the network's parameters and the parts' own, for a phase of so many steps."""
        return torch.optim.SGD(
            self.groups(net),
            lr=self.options.lr,
            momentum=self.momentum,
            weight_decay=self.options.weight_decay,
            foreach=True,
        )

    def groups(self, net: Network, names: Collection[str] | None = None) -> list[dict[str, Any]]:
        """What is trained (or those of the names), the backbone first where it has a rate of its own, then the rest."""
        slow = getattr(self.options, "backbone_lr", None)
        trained = {name: value for name, value in net.trained.items() if names is None or name in names}
        body = [value for name, value in trained.items() if slow is not None and name not in net.partition.head]
        rest = [value for name, value in trained.items() if slow is None or name in net.partition.head]
        first = [{"params": body, "lr": slow}] if body else []
        return [*first, {"params": [*rest, *net.extra.values()]}]

    def rate(self, progress: float) -> float:
        """Factor on the learning rate after the share `progress` of a task's steps."""
        return 0.5 * (1 + cos(pi * progress)) if self.options.schedule == "cosine" else 1.0
