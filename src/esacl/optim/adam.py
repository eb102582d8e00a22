"""Adam: a step of about the learning rate for every coordinate, however small its gradient (scores of a mask)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from esacl.nets.network import Network
from esacl.nets.traits import ByNorm
from esacl.optim.update import UpdateRule
from esacl.options import option
from esacl.types import Params


@dataclass(frozen=True, slots=True)
class AdamOptions:
    """Settings of Adam: WSN's authors train with 0.001, lowered on plateaus."""

    lr: float | None = option(None, "learning rate (default: by network)", low=0, high=1_000_000)
    backbone_lr: float | None = option(
        None, "learning rate of all but the head (default: the learning rate)", low=0, high=1_000_000
    )
    schedule: Literal["constant", "cosine"] = option("cosine", "learning rate within each phase of a task")


class AdamUpdate(UpdateRule):
    """Adam (Kingma & Ba 2015) over the network's parameters and the parts' own; new for every phase of a task."""

    Options: ClassVar[type[Any]] = AdamOptions
    rates: ClassVar[ByNorm] = ByNorm(batchnorm=0.001, plain=0.001)

    def build(self, net: Network, frozen: Params, steps: int) -> torch.optim.Optimizer:
        """An optimiser for a phase of so many steps."""
        return torch.optim.Adam(self.groups(net), lr=self.options.lr, foreach=True)


class BranchAdam(AdamUpdate):
    """Adam at the rate of a branch that learns a task alone, from fresh weights."""

    rates: ClassVar[ByNorm] = ByNorm(batchnorm=0.006, plain=0.006)
