"""Random features: a fixed random projection of the features, and ridge regression on it (RanPAC's idea)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import linear

from esacl.errors import ConfigError
from esacl.nets.expansion import SEED, RandomExpansion
from esacl.nets.features import CHUNK, features_of
from esacl.nets.network import Network
from esacl.options import option
from esacl.readouts.base import LinearReadout
from esacl.readouts.examples import SampleOptions, balanced
from esacl.readouts.moments import Moments
from esacl.rng import derive
from esacl.streams.base import Examples, Task
from esacl.types import Params, State

STRENGTHS = torch.logspace(-4, 4, 17, dtype=torch.float64)  # of the ridge, in mean squares of a random feature


@dataclass(frozen=True, slots=True)
class RandomFeaturesOptions(SampleOptions):
    """Settings of random features."""

    size: int = option(1000, "random features; the head has a column of as many weights a class", low=2, high=100_000)


class RandomFeatures(LinearReadout):
    """Ridge regression on ReLU of a random projection, its strength by leave-one-out in closed form (McDonnell 2023).

    Where features never move, on all examples so far, by sums that need no memory (the strength by generalised
    cross-validation). Only the seed of the projection is saved, but the head is as wide as the random features.
    """

    Options: ClassVar[type[Any]] = RandomFeaturesOptions
    adds_up = True
    fixed_width = True  # the projection is known by its seed, for all features

    def attach(self, net: Network) -> None:
        """Draw the projection."""
        super().attach(net)
        self._seed = derive(self.context.seed, "random features")
        inside = net.stored["head.weight"].shape[1]
        self.expansion = RandomExpansion(self._seed, inside, self.options.size).to(net.device)
        self.weight = self.weight.new_zeros(self.context.classes, self.options.size)
        self.moments = Moments(*self.weight.shape) if self.streams else None  # of all examples, if features stay

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Add the task to the sums where features never move; else start anew from the memory and a sample."""
        if self.moments is None:
            super().fit(net, task, remembered)
            return
        for rows in torch.split(torch.arange(len(task.train)), CHUNK):
            part = task.train.take(rows)
            wide = self.expansion(features_of(net, self.context, part.x).to(self.weight)).cpu().double()
            self.moments.add(wide, part.y)
        columns = self.moments.counts.nonzero().squeeze(1)
        weight, bias = ridge_of(self.moments, columns)[:2]
        inside, size = self.expansion.projection.shape
        net.meter.charge(len(task.train) * size * (inside + size) + 9 * size**3)
        self.put(columns, weight, bias)

    def gather(self, task: Task, remembered: Examples | None) -> Examples:
        """As many images of each class of the task as the memory holds of an earlier one."""
        return balanced(self.context, task, remembered, self.options.sample)

    def solve(self, features: Tensor, places: Tensor, classes: int) -> tuple[Tensor, Tensor, int]:
        """Ridge regression on targets of ±1."""
        planned, found = len(self.expansion.projection), features.shape[1]
        if planned != found:
            raise ConfigError(
                f"the random features read {planned} features, but the network has grown to {found}.",
                remedy="Say how many tasks there will be, or use {parts.readout:lda}.",
            )
        wide = self.expansion(features.to(self.weight)).cpu().double()
        targets = torch.full((len(places), classes), -1.0, dtype=torch.float64)
        targets[torch.arange(len(places)), places] = 1.0
        weight, bias = ridge(wide, targets)[:2]
        examples, size = wide.shape
        macs = features.numel() * size + examples * examples * (size + 9 * examples) + examples * size * classes
        return weight, bias, macs

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """Random features by its own head; the projection is charged, as it is no part of the network."""
        features = net(x, task).features
        net.meter.charge(features.numel() * self.options.size)
        return linear(self.expansion(features), self.weight, self.bias)

    def state_dict(self) -> State:
        """Its head, and the sums of what it cannot see again."""
        return {**super().state_dict(), **({} if self.moments is None else {"moments": self.moments.state_dict()})}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        super().load_state_dict(state)
        if self.moments is not None:
            self.moments.load_state_dict(state["moments"])

    def folded(self, state: Params) -> Params:
        """Its head, and the seed of what it reads."""
        return {**super().folded(state), SEED: torch.tensor(self._seed)}


def ridge_of(moments: Moments, columns: Tensor) -> tuple[Tensor, Tensor, float]:
    """Ridge regression on targets of ±1 from sums alone, its strength by generalised cross-validation.

    With s the eigenvalues of the scatter of centred features, the error of α is RSS(α) / (1 − (1 + Σ s/(s + α)) / n)².
    """
    counts, sums = moments.counts[columns], moments.sums[columns]
    n = counts.sum()
    mean = sums.sum(0) / n
    values, vectors = torch.linalg.eigh(moments.products - n * torch.outer(mean, mean))
    values = values.clamp(min=0)
    turned = vectors.T @ (2 * (sums - counts[:, None] * mean)).T  # [features, classes]
    total = 4 * (counts * (1 - counts / n)).sum()
    best: tuple[float, float] | None = None
    for strength in (STRENGTHS * (values.sum() / n).clamp(min=1e-12)).tolist():
        shrunk = 1 / (values + strength)
        left = total - (turned.square() * ((values + 2 * strength) * shrunk.square())[:, None]).sum()
        freedom = 1 - (1 + (values * shrunk).sum()) / n
        error = float(left.clamp(min=0) / freedom.clamp(min=1e-6).square())
        if best is None or error < best[0]:
            best = error, strength
    assert best is not None
    weight = (vectors @ (turned / (values + best[1])[:, None])).T
    return weight, (2 * counts / n - 1) - weight @ mean, best[1]


def ridge(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, float]:
    """Weights, biases and strength of the ridge regression with the least squared error of leave-one-out.

    In the dual: with K = XXᵀ of centred features and G = (K + αI)⁻¹ without the constant, the error of an example that
    is left out is (G y)ᵢ / Gᵢᵢ.
    """
    mean, level = features.mean(0), targets.mean(0)
    centred = features - mean
    kernel = centred @ centred.T
    size = kernel.diagonal().mean().clamp(min=1e-12)
    values, vectors = torch.linalg.eigh(kernel + size)  # the constant is an eigenvector of its own
    constant = vectors.sum(0).abs().argmax()
    turned = vectors.T @ targets
    best: tuple[float, float, Tensor] | None = None
    for strength in (STRENGTHS * size).tolist():
        inverse = 1 / (values.clamp(min=0) + strength)
        inverse[constant] = 0
        dual = vectors @ (inverse[:, None] * turned)
        error = (dual / (vectors.square() @ inverse)[:, None]).square().mean().item()
        if best is None or error < best[0]:
            best = error, strength, dual
    assert best is not None
    weight = best[2].T @ centred
    return weight, level - weight @ mean, best[1]
