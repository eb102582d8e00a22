"""Naïve twins of the sharpness-aware gradients: a deep copy of the model is moved by hand, the rest is autograd."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

Loss = Callable[[nn.Module], Tensor]


def flat_gradient(model: nn.Module, loss: Loss) -> Tensor:
    """∇ of the loss, all parameters in one vector."""
    gradients = torch.autograd.grad(loss(model), list(model.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients])


def moved(model: nn.Module, by: Tensor) -> nn.Module:
    """A copy whose parameters are moved by a vector."""
    twin = deepcopy(model)
    start = 0
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter += by[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
    return twin


def sam(model: nn.Module, ascended: Loss, descended: Loss, rho: float) -> Tensor:
    """The gradient at θ + ρ · g / ‖g‖ (Foret et al. 2021, Algorithm 1)."""
    first = flat_gradient(model, ascended)
    return flat_gradient(moved(model, rho * first / first.square().sum().sqrt()), descended)


class LookSam:
    """SAM in every k-th step, its orthogonal part again in between (Liu et al. 2022, Algorithm 1)."""

    def __init__(self, rho: float, every: int, reuse: float) -> None:
        self.rho, self.every, self.reuse = rho, every, reuse
        self.steps = 0
        self.orthogonal = torch.zeros(1)

    def gradient(self, model: nn.Module, ascended: Loss, descended: Loss) -> Tensor:
        """Of one step."""
        plain = flat_gradient(model, ascended if self.steps % self.every == 0 else descended)
        self.steps += 1
        if self.steps % self.every == 1:
            sharp = sam(model, ascended, descended, self.rho)
            cosine = plain @ sharp / (plain.norm() * sharp.norm())
            self.orthogonal = sharp - sharp.norm() * cosine * plain / plain.norm()
            return sharp
        return plain + self.reuse * plain.norm() / self.orthogonal.norm() * self.orthogonal
