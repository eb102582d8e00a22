"""Nearest class mean (iCaRL's; Rebuffi et al. 2017)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from esacl.columns import MASKED
from esacl.nets.features import features_of
from esacl.nets.network import Network
from esacl.nets.widths import Places, taken
from esacl.readouts.base import FeatureReadout
from esacl.streams.base import Examples, Task
from esacl.types import Context, Params, State


class NearestMean(FeatureReadout):
    """A class for the mean of its exemplars: features and means have length 1, the nearest mean wins.

    An image whose features are all zero has no direction: it goes to the first class.
    """

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.means = torch.empty(0)  # [classes, features]
        self.known = torch.zeros(context.classes, dtype=torch.bool, device=context.device)

    def attach(self, net: Network) -> None:
        """No class has a mean yet."""
        super().attach(net)
        self.means = torch.zeros_like(net.stored["head.weight"])
        self.sums = torch.zeros_like(self.means, dtype=torch.float64) if self.streams else None

    def narrow(self, places: Mapping[str, Places]) -> None:
        """Means of the features that are left."""
        self.means = taken(self.means, (None, places["head.weight"][1]))

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Means of the exemplars; where a class of the task has none, of its training examples.

        Where features never move, of all examples so far, by sums.
        """
        if self.sums is not None:
            features = normalize(features_of(net, self.context, task.train.x)).double()
            self.sums.index_add_(0, task.train.y.to(features.device), features)
            self.known[task.train.y] = True
            self.means = normalize(self.sums).to(self.means)
            return
        self.means = pad(self.means, (0, net.stored["head.weight"].shape[1] - self.means.shape[1]))  # it may have grown
        seen = task.train if remembered is None else remembered
        for column in sorted({*seen.y.tolist(), *task.classes}):
            source = seen if (seen.y == column).any() else task.train
            own = normalize(features_of(net, self.context, source.take(source.y == column).x))
            self.means[column] = normalize(own.mean(0), dim=0)
            self.known[column] = True

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """Product with each mean: among vectors of length 1 the nearest has the largest.

        Classes without a mean are out of the question.
        """
        products = normalize(net(x, task).features) @ self.means.T
        return torch.where(self.known, products, MASKED)

    def folded(self, state: Params) -> Params:
        """Means as weights: the length of a feature is a factor of all its products."""
        bias = torch.where(self.known, 0.0, MASKED).to(state["head.bias"])
        return {**state, "head.weight": self.means.clone(), "head.bias": bias}

    def state_dict(self) -> State:
        """The means."""
        sums = {} if self.sums is None else {"sums": self.sums.clone()}
        return {"means": self.means.clone(), "known": self.known.clone(), **sums}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.means = state["means"].clone().to(self.context.device)
        self.known = state["known"].clone().to(self.context.device)
        if self.sums is not None:
            self.sums = state["sums"].clone().to(self.context.device)
