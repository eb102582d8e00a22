"""Linear discriminant analysis: class means, one covariance for all, shrunk by a formula."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from esacl.nets.features import features_of
from esacl.nets.network import Network
from esacl.options import option
from esacl.readouts.base import LinearReadout
from esacl.readouts.examples import SampleOptions, balanced
from esacl.readouts.moments import Moments
from esacl.streams.base import Examples, Task
from esacl.types import Context, State


@dataclass(frozen=True, slots=True)
class LdaOptions(SampleOptions):
    """Settings of linear discriminant analysis."""

    shrinkage: float | None = option(
        None, "share of the identity in the covariance (default: as OAS says for normal features)", low=0, high=1
    )


class Lda(LinearReadout):
    """Linear discriminant analysis with one covariance for all classes, shrunk as much as OAS says (Chen 2010).

    Fitted on the memory and a balanced sample of the task; where the features never move, on all examples so far, by
    sums that need no memory (Hayes 2020). All classes are equally likely beforehand.
    """

    Options: ClassVar[type[Any]] = LdaOptions
    adds_up = True

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.moments: Moments | None = None  # of all examples so far, where features never move

    def attach(self, net: Network) -> None:
        """Nothing was seen yet."""
        super().attach(net)
        self.moments = Moments(*self.weight.shape) if self.streams else None

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Add the task to the sums, or start them anew."""
        found = task.train if self.streams else balanced(self.context, task, remembered, self.options.sample)
        features = features_of(net, self.context, found.x).cpu().double()
        moments = self.moments or Moments(len(self.weight), features.shape[1])
        moments.add(features, found.y)
        columns, share = moments.counts.nonzero().squeeze(1), self.options.shrinkage
        weight, bias = discriminants(moments.counts[columns], moments.sums[columns], moments.products, share)
        width = features.shape[1]
        net.meter.charge(width * (features.numel() + width * (width // 3 + len(columns))))
        self.put(columns, weight, bias)

    def state_dict(self) -> State:
        """Its head, and the sums of what it cannot see again."""
        return {**super().state_dict(), **({} if self.moments is None else {"moments": self.moments.state_dict()})}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        super().load_state_dict(state)
        if self.moments is not None:
            self.moments.load_state_dict(state["moments"])


def discriminants(counts: Tensor, sums: Tensor, products: Tensor, share: float | None = None) -> tuple[Tensor, Tensor]:
    """Weights Σ⁻¹μ and biases −μᵀΣ⁻¹μ/2 of classes that are equally likely, Σ the shrunk covariance within classes.

    `share` is that of the identity; None: as much as OAS says.
    """
    means = sums / counts[:, None]
    total = counts.sum()
    within = (products - (means * counts[:, None]).T @ means) / total
    size = within.diagonal().mean().clamp(min=1e-12)
    share = oas(within, float(total)) if share is None else share
    shrunk = (1 - share) * within + share * size * torch.eye(len(within), dtype=within.dtype)
    shrunk = shrunk + 1e-9 * size * torch.eye(len(within), dtype=within.dtype)  # a share of 0 may leave it singular
    weight = torch.linalg.solve(shrunk, means.T).T
    return weight, -(weight * means).sum(1) / 2


def oas(covariance: Tensor, examples: float) -> float:
    """Share of the identity that oracle approximating shrinkage mixes in: Eq. 23 (OAS), as scikit-learn has it.

    >>> round(oas(torch.diag(torch.tensor([4.0, 1.0])), 10), 3)
    0.848
    """
    width = len(covariance)
    squares, size = covariance.square().mean(), covariance.diagonal().mean()
    spread = (examples + 1) * (squares - size.square() / width)
    return 1.0 if spread <= 0 else min(1.0, float((squares + size.square()) / spread))
