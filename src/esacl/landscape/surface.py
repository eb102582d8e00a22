"""Loss surfaces: directions that are comparable between networks, the loss along them, and sharpness."""

from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import Generator, Tensor

from esacl.types import Params

Loss = Callable[[Params], Tensor]  # parameters → mean loss


def filter_normalised(weights: Params, names: Collection[str], draw: Generator) -> Params:
    """A random direction whose every filter is as long as that of the weights (Li et al. 2018); zero elsewhere.

    Scaling a layer up and the next one down changes nothing a network computes, but the distance of a given step:
    measured in lengths of filters, networks can be compared.
    """
    return {
        name: _as_long(torch.randn(weight.shape, generator=draw).to(weight.device), weight)
        if name in names
        else torch.zeros_like(weight)
        for name, weight in weights.items()
    }


def _as_long(direction: Tensor, weight: Tensor) -> Tensor:
    """Each row of the direction, brought to the length of the row of the weights."""
    rows = (len(weight), *[1] * (weight.dim() - 1))
    lengths = weight.flatten(1).norm(dim=1) / direction.flatten(1).norm(dim=1).clamp(min=1e-12)
    scaled: Tensor = direction * lengths.view(rows)
    return scaled


def moved(weights: Params, *steps: tuple[float, Params]) -> Params:
    """Weights plus multiples of directions."""
    return {
        name: weight + torch.stack([length * direction[name] for length, direction in steps]).sum(0)
        for name, weight in weights.items()
    }


def along(loss: Loss, weights: Params, direction: Params, lengths: Sequence[float]) -> Iterator[float]:
    """The loss at multiples of one direction."""
    for length in lengths:
        yield float(loss(moved(weights, (length, direction))))


def across(
    loss: Loss, weights: Params, one: Params, other: Params, lengths: Sequence[float], widths: Sequence[float]
) -> Iterator[float]:
    """The loss in the plane of two directions, row by row (one row for each width)."""
    for width in widths:
        for length in lengths:
            yield float(loss(moved(weights, (length, one), (width, other))))


def sharpness(loss: Loss, weights: Params, rho: float) -> float:
    """How much the loss grows within ρ of the weights, to first order: Eq. 7 (sharpness).

    max L(θ + ε) − L(θ) over ‖ε‖ ≤ ρ, where ε = ρ ∇L / ‖∇L‖ stands for the worst one, as in the ascent (Eq. 14).
    """
    leaves = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
    with torch.enable_grad():
        before = loss(leaves)
        gradients = torch.autograd.grad(before, list(leaves.values()), allow_unused=True)
    uphill = {name: torch.zeros_like(weights[name]) if g is None else g for name, g in zip(leaves, gradients)}
    size = torch.cat([gradient.flatten() for gradient in uphill.values()]).norm()
    if size == 0:
        return 0.0
    return float(loss(moved(weights, (rho / float(size), uphill))) - before.detach())


def relative(sharpness: float, loss: float) -> float:
    """Growth of the loss as a share of it; 0 where there is no loss.

    >>> relative(0.25, 0.5), relative(0.25, 0.0)
    (0.5, 0.0)
    """
    return sharpness / loss if loss > 0 else 0.0
