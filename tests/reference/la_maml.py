"""Naïve twin of look-ahead meta-learning: the inner steps unrolled, the whole differentiated by torch.func."""

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor
from torch.func import grad
from torch.nn.functional import cross_entropy

Weights = dict[str, Tensor]
Answer = Callable[[Weights, Tensor], Tensor]  # logits of inputs by weights
Examples = tuple[Tensor, Tensor]  # inputs and labels


def loss_of(answer: Answer, weights: Weights, examples: Examples) -> Tensor:
    """Mean cross-entropy."""
    return cross_entropy(answer(weights, examples[0]), examples[1])


def unroll(
    answer: Answer,
    weights: Weights,
    rates: Weights,
    slices: list[Examples],
    clip: float,
    second_order: bool,
    by: str = "value",
) -> list[Weights]:
    """Fast weights after each inner step."""
    path = []
    for examples in slices:
        gradient = grad(lambda fast: loss_of(answer, fast, examples))(weights)  # noqa: B023
        if not second_order:
            gradient = {name: value.detach() for name, value in gradient.items()}
        length = torch.cat([value.flatten() for value in gradient.values()]).square().sum().sqrt()
        if by == "value":
            high = {name: torch.where(value > clip, clip, value) for name, value in gradient.items()}
            gradient = {name: torch.where(value < -clip, -clip, value) for name, value in high.items()}
        elif length > clip:
            gradient = {name: value * clip / length for name, value in gradient.items()}
        weights = {name: weights[name] - rates[name].clamp(min=0) * gradient[name] for name in weights}
        path.append(weights)
    return path


def meta_gradients(
    answer: Answer,
    weights: Weights,
    rates: Weights,
    slices: list[Examples],
    meta: list[Examples],
    clip: float,
    second_order: bool,
    by: str = "value",
) -> tuple[Weights, Weights]:
    """Gradients, for weights and rates, of the mean over the inner steps of the summed losses on all of `meta`."""

    def loss(weights: Weights, rates: Weights) -> Tensor:
        path = unroll(answer, weights, rates, slices, clip, second_order, by)
        losses = [loss_of(answer, fast, examples) for fast in path for examples in meta]
        return sum(losses, torch.zeros(())) / len(path)

    found: tuple[Weights, Weights] = grad(loss, argnums=(0, 1))(weights, rates)
    return found


def move(
    weights: list[float], rates: list[float], by: list[float], rates_by: list[float], rate_lr: float, clip: float
) -> tuple[list[float], list[float]]:
    """Weights and rates after a step: the rates first."""

    def shortened(gradient: list[float]) -> list[float]:
        length = sqrt(sum(value * value for value in gradient))
        return [value * clip / length for value in gradient] if length > clip else gradient

    rates = [rate - rate_lr * value for rate, value in zip(rates, shortened(rates_by))]
    return [weight - max(0.0, rate) * value for weight, rate, value in zip(weights, rates, shortened(by))], rates
