"""The K-sparse polytope: the convex hull of all vectors with k entries ±radius and zeros elsewhere."""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from esacl.ranking import largest


@dataclass(frozen=True, slots=True)
class KSparsePolytope:
    """C(k, radius) = {x : max |x| ≤ radius, Σ |x| ≤ k · radius}.

    >>> polytope = KSparsePolytope(k=1, radius=2.0)
    >>> polytope.lmo(torch.tensor([0.1, -3.0, 1.0]))
    tensor([0., 2., 0.])
    >>> polytope.diameter
    4.0
    """

    k: int
    radius: float

    def lmo(self, direction: Tensor, frozen: Tensor | None = None) -> Tensor:
        """Vertex of C(k, radius) that minimises <direction, v>: Eq. 13 (linear minimisation oracle).

        The k coordinates with the largest |direction| are ±radius, signed against it; all others are 0, and so are
        `frozen` ones. Where the direction itself is 0, 0 is as good as any sign.
        """
        size = direction.abs()
        signed = (
            direction.sign().mul_(-self.radius).add_(direction, alpha=0.0)
        )  # the sign of NaN is 0, but 0 · NaN is not
        if frozen is not None:
            size.masked_fill_(frozen, -1.0)
            signed.masked_fill_(frozen, 0.0)  # where k is more than there are free ones
        return torch.where(largest(size, self.k), signed, 0.0)

    def gauge(self, x: Tensor) -> Tensor:
        """The smallest factor by which the polytope must be blown up to hold x: at most 1 inside."""
        size = x.abs()
        return torch.maximum(size.max(), size.sum() / self.k) / self.radius

    def contains(self, x: Tensor, tolerance: float = 1e-5) -> bool:
        """Whether x is inside, up to a relative tolerance for rounding."""
        return bool(self.gauge(x) <= 1 + tolerance)

    def pull_inside(self, x: Tensor) -> Tensor:
        """x itself inside the polytope, otherwise the point of the boundary in the direction of x."""
        return x / self.gauge(x).clamp(min=1.0)

    @property
    def diameter(self) -> float:
        """Largest distance of two points: between a vertex and its opposite."""
        return 2 * self.radius * sqrt(self.k)
