"""Stochastic Frank-Wolfe over polytopes of whole channels."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from esacl.errors import ConfigError
from esacl.optim.frank_wolfe import FrankWolfe
from esacl.optim.polytope import GroupSparsePolytope


class ChannelFrankWolfe(FrankWolfe):
    """θ ← θ + η (v − θ), v the vertex of a group-sparse polytope that descends most along the momentum.

    The parameters of a group have a row for each channel: its filters, its bias, BatchNorm's scale and shift. A vertex
    moves the K channels with the longest momentum, and every other channel shrinks towards zero, scale and shift
    included; filters alone would not matter under BatchNorm.

    Options are those of `FrankWolfe` that are not about single coordinates; K is a share of a group's channels.
    """

    def __init__(self, params: Iterable[Any], lr: float = 0.01, *, k: float = 0.05, **options: Any) -> None:
        for name in ("scope", "rescale", "pull", "frozen"):
            if options.get(name):
                raise ConfigError(f"{name} is of no use to a polytope of whole channels. Leave it out.")
        super().__init__(params, lr, k=k, **{**options, "scope": "global", "rescale": "none", "pull": False})

    def _dimensions(self, params: list[Tensor]) -> int:
        """What K is a share of: channels."""
        return len(params[0])

    def _approach(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """One step of the channels that the parameters form together."""
        counted = self._polytope(params, group)
        polytope = GroupSparsePolytope(counted.k, counted.radius)
        directions = [self.state[param]["momentum_buffer"] for param in params]
        squares = [direction.flatten(1).square().sum(1) for direction in map(_rows, directions)]
        found, factors = polytope.corner(torch.stack(squares).sum(0).sqrt())
        eta = min(float(group["lr"]), 1.0)
        for param, direction in zip(params, directions):
            along = (-1, *(1,) * (param.dim() - 1))
            corner = direction.index_select(0, found) * factors.view(along)
            moved = torch.lerp(param.index_select(0, found), corner, eta)
            param.mul_(1 - eta).index_copy_(0, found, moved)


def _rows(value: Tensor) -> Tensor:
    """At least two dimensions, the first of which is the channels'."""
    return value.unsqueeze(1) if value.dim() == 1 else value
