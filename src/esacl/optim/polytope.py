"""K-sparse polytopes: convex hulls of all vectors with k entries ±radius, or of matrices with k rows of one length."""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from esacl.ranking import places


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

    def corner(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        """The vertex that minimises <direction, v> for a vector: Eq. 13 (LMO), as places and values of its entries.

        The k coordinates with the largest |direction| are ±radius, signed against it. Where the direction itself is
        0, 0 is as good as any sign: those places are left out.
        """
        found = places(direction.abs(), self.k)
        along = direction.index_select(0, found)
        if along.count_nonzero() < len(along):
            found, along = found[along != 0], along[along != 0]
        return found, torch.where(along.isnan(), along, along.sign() * -self.radius)  # the sign of NaN would be 0

    def lmo(self, direction: Tensor) -> Tensor:
        """Vertex of C(k, radius) that minimises <direction, v>: Eq. 13 (linear minimisation oracle)."""
        found, entries = self.corner(direction.flatten())
        vertex = direction.new_zeros(direction.numel()).index_copy_(0, found, entries).view(direction.shape)
        return torch.empty_like(direction).copy_(vertex)

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


@dataclass(frozen=True, slots=True)
class GroupSparsePolytope:
    """The convex hull of all matrices with k rows of length radius and zeros elsewhere: K-sparse by rows.

    >>> GroupSparsePolytope(k=1, radius=2.0).lmo(torch.tensor([[0.0, 1.0], [3.0, 4.0]]))
    tensor([[ 0.0000,  0.0000],
            [-1.2000, -1.6000]])
    """

    k: int
    radius: float

    def corner(self, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The vertex that minimises <direction, v>, by the lengths of the direction's rows.

        Its k rows, and the factor that makes each of them of the direction's. Rows of 0 are left out.
        """
        found = places(lengths, self.k)
        along = lengths.index_select(0, found)
        found, along = found[along != 0], along[along != 0]
        return found, -self.radius / along

    def lmo(self, direction: Tensor) -> Tensor:
        """Vertex that minimises <direction, v> (linear minimisation oracle)."""
        found, factors = self.corner(direction.norm(dim=1))
        return torch.zeros_like(direction).index_copy_(0, found, direction[found] * factors[:, None])

    @property
    def diameter(self) -> float:
        """Largest distance of two points: between a vertex and its opposite."""
        return 2 * self.radius * sqrt(self.k)
