"""A fixed random expansion of features, known by its seed: between backbone and head of some saved models."""

from math import sqrt

import torch
from torch import Tensor, nn

from esacl.rng import generator

SEED = "expansion.seed"
"""Where a saved model has the seed of its expansion."""


class RandomExpansion(nn.Module):
    """ReLU of a random projection; the matrix is drawn from the seed, and never stored."""

    seed: Tensor
    projection: Tensor

    def __init__(self, seed: int, features: int, size: int) -> None:
        super().__init__()
        self.register_buffer("seed", torch.tensor(seed, device="cpu"))
        self.register_buffer("projection", torch.empty(features, size, device="cpu"), persistent=False)
        self.draw()

    def draw(self) -> None:
        """Draw the matrix again, as one does after loading: it is not in the state."""
        drawn = torch.randn(self.projection.shape, generator=generator(int(self.seed), "expansion"), device="cpu")
        self.projection = (drawn / sqrt(len(self.projection))).to(self.projection.device)

    def forward(self, features: Tensor) -> Tensor:
        """[N, features] → [N, size]."""
        return torch.relu(features @ self.projection)
