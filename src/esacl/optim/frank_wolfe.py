"""Stochastic Frank-Wolfe over K-sparse polytopes, as a torch optimiser that needs nothing else of the library."""

from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from sys import float_info
from typing import Any

import torch
from torch import Tensor

from esacl.errors import ConfigError
from esacl.optim.polytope import KSparsePolytope

CHOICES = {
    "radius_scale": ("norm", "absolute"),
    "scope": ("layer", "global"),
    "momentum_mode": ("average", "accumulate"),
    "rescale": ("none", "gradient", "diameter"),
}
BOUNDS = {
    "lr": (0.0, float_info.max, "a number of at least 0"),
    "k": (float_info.min, 1.0, "a number above 0, up to 1"),
    "radius": (float_info.min, float_info.max, "a number above 0"),
    "momentum": (0.0, 0.9999, "a number from 0 to 0.9999"),
    "weight_decay": (0.0, float_info.max, "a number of at least 0"),
}


class FrankWolfe(torch.optim.Optimizer):
    """θ ← θ + η (v − θ), v the vertex that descends most along the momentum: Eq. 12, 13 and 15.

    Every weight that is not chosen shrinks towards zero, so a trained network can be pruned in one shot.

    params: parameters, or groups of them; a group with ``polytope=False`` is trained by SGD with momentum.
    lr: η, the step (SGD groups: the learning rate).
    k: share of a polytope's free coordinates that a vertex has; at least one.
    radius: τ. With ``radius_scale="norm"`` it is relative: τ√K = radius · ‖θ‖ as θ is at the first step.
    scope: a polytope for each parameter ("layer"), or one for the group ("global").
    momentum: m ← momentum · m + (1 − momentum) · g; with ``momentum_mode="accumulate"``, m ← m + g (Eq. 15).
    rescale: η as given, times ‖m‖ / ‖v − θ‖ ("gradient"), or divided by the polytope's diameter ("diameter").
    pull: bring θ inside its polytope at the first step, so that every iterate is inside.
    polytope: False for a group that is trained by SGD.
    weight_decay: of SGD groups; a polytope has no need of it.
    frozen: by parameter, masks of coordinates that never move and are not counted.

    The defaults are the textbook's; those that `esacl` trains with are in `polytope_update.py`. Weights that are all
    zero have no norm: τ is then `radius` itself.

    >>> weight = torch.nn.Parameter(torch.tensor([0.5, -0.5, 0.1]))
    >>> optimizer = FrankWolfe([weight], lr=0.5, k=0.3, radius=1.0, radius_scale="absolute")
    >>> weight.grad = torch.tensor([0.0, 2.0, 1.0])
    >>> optimizer.step()
    >>> weight.detach()
    tensor([ 0.2273, -0.7273,  0.0455])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        *,
        k: float = 0.05,
        radius: float = 2.0,
        radius_scale: str = "norm",
        scope: str = "layer",
        momentum: float = 0.9,
        momentum_mode: str = "average",
        rescale: str = "none",
        pull: bool = True,
        polytope: bool = True,
        weight_decay: float = 0.0,
        frozen: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "k": k,
            "radius": radius,
            "radius_scale": radius_scale,
            "scope": scope,
            "momentum": momentum,
            "momentum_mode": momentum_mode,
            "rescale": rescale,
            "pull": pull,
            "polytope": polytope,
            "weight_decay": weight_decay,
        }
        self._frozen = {param: mask for param, mask in (frozen or {}).items() if bool(mask.any())}
        self._movable = {param: torch.empty_like(param).copy_(~mask) for param, mask in self._frozen.items()}
        self._free: dict[Tensor, int] = {}  # coordinates that may move
        super().__init__(params, defaults)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy needs."""
        return {**super().__getstate__(), "_frozen": self._frozen, "_movable": self._movable, "_free": self._free}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Another group, checked."""
        settings = {**self.defaults, **param_group}
        for name, choices in CHOICES.items():
            if settings[name] not in choices:
                raise ConfigError(f"{name} = {settings[name]!r} is not allowed. Allowed: {' or '.join(choices)}.")
        for name, (low, high, allowed) in BOUNDS.items():
            value = settings[name]
            if not isinstance(value, int | float | Tensor) or not low <= value <= high:
                raise ConfigError(f"{name} = {value!r} is not allowed. Allowed: {allowed}.")
        super().add_param_group(param_group)
        for param in self.param_groups[-1]["params"]:
            mask = self._frozen.get(param)
            self._free[param] = param.numel() - (0 if mask is None else int(mask.sum()))

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None and self._free[param]]
            if not params:
                continue
            if not group["polytope"]:
                self._descend(params, group)
                continue
            vectors = [[param] for param in params] if group["scope"] == "layer" else [params]
            for vector in vectors:
                if not all(self._begun(param) for param in vector):
                    self._begin(vector, group)
            self._look_back(params, group)
            for vector in vectors:
                self._approach(vector, group)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state of before; momentum takes the memory layout of its parameter again.

        Sums over another layout would round otherwise, and a resumed run is to give the same bits.
        """
        super().load_state_dict(state_dict)
        for param, state in self.state.items():
            if "momentum_buffer" in state:
                state["momentum_buffer"] = torch.empty_like(param).copy_(state["momentum_buffer"])

    def polytopes(self, group: Mapping[str, Any]) -> dict[Tensor, KSparsePolytope]:
        """The polytope of each parameter of a group, once it has taken its first step."""
        begun = [param for param in group["params"] if self._begun(param)]
        return {param: self._polytope([param] if group["scope"] == "layer" else begun, group) for param in begun}

    def _polytope(self, params: list[Tensor], group: Mapping[str, Any]) -> KSparsePolytope:
        """The polytope of the vector that the parameters form together."""
        share: float = group["k"]
        return KSparsePolytope(max(1, round(share * self._dimensions(params))), self.state[params[0]]["radius"])

    def _dimensions(self, params: list[Tensor]) -> int:
        """What K is a share of: the coordinates that may move."""
        return sum(self._free[param] for param in params)

    def _begun(self, param: Tensor) -> bool:
        return "radius" in self.state.get(param, {})

    def _look_back(self, params: list[Tensor], group: Mapping[str, Any]) -> None:
        """Momentum: an average of the gradients, or their sum (Eq. 15)."""
        momenta = [self.state[param]["momentum_buffer"] for param in params]
        if group["momentum_mode"] == "average":
            torch._foreach_lerp_(momenta, _gradients(params), 1 - group["momentum"])
        else:
            torch._foreach_add_(momenta, _gradients(params))
        # What has no direction is in no vertex: cheaper than masks at every turn.
        partly = [param for param in params if param in self._movable]
        if partly:
            momenta = [self.state[param]["momentum_buffer"] for param in partly]
            torch._foreach_mul_(momenta, [self._movable[param] for param in partly])

    def _approach(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """One Frank-Wolfe step of the vector that the parameters form together."""
        theta = _joined(params, params)
        movable = self._joined_masks(params)
        direction = _joined([self.state[param]["momentum_buffer"] for param in params], params)
        polytope = self._polytope(params, group)
        places, corner = polytope.corner(direction)
        free = theta if movable is None else theta * movable
        eta = self._eta(group, polytope, direction, free, places, corner)
        moved = torch.lerp(theta.index_select(0, places), corner, eta)
        theta.sub_(free, alpha=eta)  # everything shrinks towards zero but the few places of the vertex
        _spread(params, theta.index_copy_(0, places, moved))

    def _begin(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Fix the radius by the weights of now, and pull them inside; who joins later shares the radius there is."""
        known = [self.state[param]["radius"] for param in params if self._begun(param)]
        theta, movable = _joined(params, params), self._joined_masks(params)
        free = theta if movable is None else theta * movable
        for param in params:
            if not self._begun(param):
                self.state[param]["radius"] = known[0] if known else 1.0
                self.state[param]["momentum_buffer"] = torch.zeros_like(param)
        polytope = self._polytope(params, group)
        if not known:
            radius = group["radius"]
            if group["radius_scale"] == "norm":
                size = float(free.norm()) or float(theta.norm())  # of the frozen ones where all others are zero
                radius = radius * size / sqrt(polytope.k) or radius
            for param in params:
                self.state[param]["radius"] = radius
        if group["pull"]:
            inside = self._polytope(params, group).pull_inside(free)
            _spread(params, inside if movable is None else torch.where(movable > 0, inside, theta))

    def _eta(
        self,
        group: Mapping[str, Any],
        polytope: KSparsePolytope,
        direction: Tensor,
        free: Tensor,
        places: Tensor,
        corner: Tensor,
    ) -> float:
        """The step: never beyond the vertex."""
        eta = float(group["lr"])
        if group["rescale"] == "diameter":
            eta /= polytope.diameter
        elif group["rescale"] == "gradient":
            way = free.neg()
            way[places] += corner
            eta *= float(direction.norm() / way.norm().clamp(min=1e-12))
        return min(eta, 1.0)

    def _joined_masks(self, params: list[Tensor]) -> Tensor | None:
        """1 where a coordinate may move, 0 where it is frozen; None where all may."""
        if not any(param in self._movable for param in params):
            return None
        masks = [self._movable[param] if param in self._movable else torch.ones_like(param) for param in params]
        return _joined(masks, params)

    def _descend(self, params: list[Tensor], group: Mapping[str, Any]) -> None:
        """SGD with momentum and weight decay."""
        directions = _gradients(params)
        if group["weight_decay"]:
            directions = list(torch._foreach_add(directions, params, alpha=group["weight_decay"]))
        if group["momentum"]:
            for param in params:
                if not self.state[param]:
                    self.state[param]["momentum_buffer"] = torch.zeros_like(param)
            momenta = [self.state[param]["momentum_buffer"] for param in params]
            torch._foreach_mul_(momenta, group["momentum"])
            torch._foreach_add_(momenta, directions)
            directions = momenta
        before = {param: param.clone() for param in params if param in self._frozen}
        torch._foreach_add_(params, directions, alpha=-group["lr"])
        for param, value in before.items():
            param.copy_(torch.where(self._frozen[param], value, param))


def _gradients(params: list[Tensor]) -> list[Tensor]:
    """Of parameters that have one."""
    return [param.grad for param in params if param.grad is not None]


def _vector(tensor: Tensor, param: Tensor) -> Tensor:
    """A tensor of a parameter's shape as a vector, in the parameter's memory order: a view where it has the same."""
    if param.dim() == 4 and not param.is_contiguous():  # channels last
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(-1)


def _joined(tensors: list[Tensor], params: list[Tensor]) -> Tensor:
    """Tensors that belong to parameters as one vector; a view of a single one where its memory allows it."""
    vectors = [_vector(tensor, param) for tensor, param in zip(tensors, params)]
    return vectors[0] if len(vectors) == 1 else torch.cat(vectors)


def _spread(params: list[Tensor], values: Tensor) -> None:
    """Write a joined vector back, unless it is the memory of the one parameter itself."""
    if len(params) == 1 and values.data_ptr() == params[0].data_ptr():
        return
    for param, part in zip(params, torch.split(values, [param.numel() for param in params])):
        if param.dim() == 4 and not param.is_contiguous():
            param.permute(0, 2, 3, 1).copy_(part.view(param.permute(0, 2, 3, 1).shape))
        else:
            param.copy_(part.view(param.shape))
