"""Sums of features that are enough for a linear readout, whatever came when."""

import torch
from torch import Tensor

from esacl.types import State


class Moments:
    """Counts and sums of features by class, and their outer products over all."""

    def __init__(self, classes: int, features: int) -> None:
        self.counts = torch.zeros(classes, dtype=torch.float64)
        self.sums = torch.zeros(classes, features, dtype=torch.float64)
        self.products = torch.zeros(features, features, dtype=torch.float64)

    def add(self, features: Tensor, labels: Tensor) -> None:
        """See more examples."""
        self.counts += labels.bincount(minlength=len(self.counts))
        self.sums.index_add_(0, labels, features)
        self.products.addmm_(features.T, features)

    def state_dict(self) -> State:
        """The sums."""
        return {"counts": self.counts.clone(), "sums": self.sums.clone(), "products": self.products.clone()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.counts, self.sums, self.products = (state[name].clone() for name in ("counts", "sums", "products"))
