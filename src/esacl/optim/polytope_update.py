"""The update rule of EsaCL: Frank-Wolfe for the weights that will be pruned, SGD for everything else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from esacl.errors import ConfigError
from esacl.nets.network import Network
from esacl.nets.traits import ByNorm, NetTraits
from esacl.nets.widths import written
from esacl.optim.channel_frank_wolfe import ChannelFrankWolfe
from esacl.optim.frank_wolfe import FrankWolfe
from esacl.optim.update import SgdOptions, UpdateRule
from esacl.options import option
from esacl.problem import Problem
from esacl.types import Params

ABSOLUTE = {"reach": "eta", "window": "averaging"}  # relative settings, and those that replace them
LONGEST_STEP = 0.2  # η at the start of a very short phase: longer steps replace the weights instead of moving them


@dataclass(frozen=True, slots=True)
class PolytopeOptions(SgdOptions):
    """Settings of Frank-Wolfe; `lr`, `momentum` and `weight_decay` are those of the parameters outside the polytope."""

    k: float | None = option(
        None, "K: share of a layer's free weights that a vertex moves (default: by network)", low=1e-6, high=1
    )
    radius: float | None = option(None, "τ: radius of the polytope (default: by network)", low=1e-9)
    radius_scale: Literal["norm", "absolute"] = option("norm", "τ√K as a multiple of the layer's norm, or τ itself")
    reach: float | None = option(None, "sum of all steps η of a task, none longer than 0.2 (default: 8)", low=1e-9)
    eta: float | None = option(None, "η itself instead of the reach", low=1e-9, high=1)
    window: float | None = option(
        None, "share of a task's steps that the averaged momentum looks back on (default: 0.1)", low=0, high=1
    )
    averaging: float | None = option(None, "β of the averaged momentum instead of the window", low=0, high=0.9999)
    momentum_mode: Literal["average", "accumulate"] = option("average", "m ← βm + (1 − β)g, or m ← m + g (Eq. 15)")
    rescale: Literal["none", "gradient", "diameter"] = option("none", "η raw, by the gradient, or by the diameter")
    scope: Literal["layer", "global", "channel"] = option(
        "layer", "a polytope for each layer, one for all, or one of whole channels for each group of them"
    )
    holds: Literal["weights", "all"] = option("weights", "what is in polytopes: prunable weights, or everything")
    pull: bool = option(False, "bring the weights inside their polytope when a task starts")


class PolytopeUpdate(UpdateRule):
    """Stochastic Frank-Wolfe over K-sparse polytopes (Eq. 12, 13, 15).

    Deviation: only prunable weights are in polytopes, and radius and steps are relative (docs/decisions.md).
    """

    Options: ClassVar[type[Any]] = PolytopeOptions
    leaves_frozen = True
    rates: ClassVar[ByNorm] = ByNorm(batchnorm=0.1, plain=0.01)
    shares: ClassVar[ByNorm] = ByNorm(batchnorm=0.01, plain=0.05)
    radii: ClassVar[ByNorm] = ByNorm(batchnorm=2.0, plain=0.35)
    reach: ClassVar[float] = 8.0
    window: ClassVar[float] = 0.1

    @classmethod
    def defaults(cls, net: NetTraits, options: Mapping[str, Any]) -> dict[str, Any]:
        """What is right for a network, for options left open and not given in another form."""
        suited = {"k": cls.shares.suited(net), "radius": cls.radii.suited(net)}
        relative = {"reach": cls.reach, "window": cls.window}
        suited |= {name: value for name, value in relative.items() if options[ABSOLUTE[name]] is None}
        return {**super().defaults(net, options), **suited}

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """Two forms of the same thing."""
        own = options["update"]
        for relative, absolute in ABSOLUTE.items():
            if own[relative] is not None and own[absolute] is not None:
                return Problem(
                    f"{{given}} and {{update.{absolute}:{{other}}}} are two forms of the same setting.",
                    f"update.{relative}",
                    own[relative],
                    remedy="Give one of the two.",
                    other=own[absolute],
                )
        for name, value in (("pull", True), ("rescale", "gradient"), ("rescale", "diameter"), ("holds", "all")):
            if own["scope"] == "channel" and own[name] == value:
                return Problem(
                    "{given} is about single weights, but with {update.scope:channel} whole channels move.",
                    f"update.{name}",
                    value,
                    remedy="Leave it out, or use {update.scope:layer}.",
                )
        return None

    @property
    def remedy(self) -> str:
        """What to do when training diverges."""
        return (
            f"Use a smaller {{update.radius}} than {self.options.radius:g}, a smaller {{update.reach}} (or "
            f"{{update.eta}}), or a smaller {{update.lr}} than {self.options.lr:g}."
        )

    def build(self, net: Network, frozen: Params, steps: int) -> torch.optim.Optimizer:
        """Groups of polytopes and of SGD."""
        options = self.options
        if options.scope == "channel":
            return self._of_channels(net, frozen, steps)
        held = net.partition.prunable if options.holds == "weights" else tuple(net.stored)
        inside = [value for name, value in net.trained.items() if name in held]
        polytope = {"params": inside, **self._pace(steps)}
        outside = self.groups(net, [name for name in net.trained if name not in held])
        plain = [{**group, "polytope": False} for group in outside if group["params"]]
        return FrankWolfe(
            [*([polytope] if inside else []), *plain],
            lr=options.lr,
            k=options.k,
            radius=options.radius,
            radius_scale=options.radius_scale,
            scope=options.scope,
            momentum=self.momentum,
            momentum_mode=options.momentum_mode,
            rescale=options.rescale,
            pull=options.pull,
            weight_decay=options.weight_decay,
            frozen={net.trained[name]: mask for name, mask in frozen.items()},
        )

    def _of_channels(self, net: Network, frozen: Params, steps: int) -> torch.optim.Optimizer:
        """A polytope for each group of units, and SGD for the head and what belongs to no group."""
        if any(bool(mask.any()) for mask in frozen.values()) or net.narrowed is not None:
            raise ConfigError(
                "{given} moves whole channels, but some weights are frozen.",
                "update.scope",
                "channel",
                remedy="Use {update.scope:layer}, or a method that freezes nothing.",
            )
        names = list(written(net.model).values())
        inside = {name for group in names for name in group}
        polytopes = [{"params": [net.stored[name] for name in group], **self._pace(steps)} for group in names]
        outside = self.groups(net, [name for name in net.trained if name not in inside])
        options = self.options
        return ChannelFrankWolfe(
            [*polytopes, *({**group, "polytope": False} for group in outside if group["params"])],
            lr=options.lr,
            k=options.k,
            radius=options.radius,
            radius_scale=options.radius_scale,
            momentum=self.momentum,
            momentum_mode=options.momentum_mode,
            weight_decay=options.weight_decay,
        )

    def _pace(self, steps: int) -> dict[str, float]:
        """η and β of a phase of so many steps."""
        options = self.options
        return {
            "lr": options.eta if options.eta is not None else self.first_step(steps),
            "momentum": options.averaging if options.averaging is not None else self.average_over(steps),
        }

    def average_over(self, steps: int) -> float:
        """β of an average that looks back on the window: 1 − 1 / (number of steps in it)."""
        return min(0.9999, 1 - 1 / max(1.0, float(self.options.window) * steps))

    def first_step(self, steps: int) -> float:
        """η at the start of a phase, such that all its steps add up to the reach where there are enough of them."""
        full = (steps + 1) / 2 if self.options.schedule == "cosine" else steps  # that so many full ones add up to
        return min(float(self.options.reach / full), LONGEST_STEP)
