"""Contrastive continual learning (CO2L; Cha et al. 2021): features learnt by comparison, relations distilled."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize, relu

from esacl.nets.network import Network
from esacl.nets.widths import Places, taken
from esacl.objectives.exemplars import ExemplarObjective, ExemplarOptions
from esacl.options import option
from esacl.rng import generator
from esacl.streams.base import Task
from esacl.streams.rows import Rows
from esacl.types import Batch, Context, Outputs, Params, Replay, State


@dataclass(frozen=True, slots=True)
class Co2lOptions(ExemplarOptions):
    """Settings of CO2L: the authors' temperatures and projection.

    Their weight of the distillation is 1, but their code multiplies the contrastive loss by temperature / 0.07: the
    same proportion is 0.14 here.
    """

    temperature: float = option(0.5, "temperature of the contrastive loss", low=0.001)
    past_temperature: float = option(0.01, "temperature of the old network's similarities", low=0.001)
    present_temperature: float = option(0.2, "temperature of the present network's similarities", low=0.001)
    distil: float = option(0.14, "weight of the distillation", low=0)
    projection: int = option(128, "length of the projected features", low=2, high=100_000)


class Co2l(ExemplarObjective):
    """Asymmetric supervised contrastive loss + distil · relation distillation: Eq. 10 and 13, mean over the batch.

    Only examples of the present task are anchors; those of the memory are there to be compared with. Each is read in
    two views. Deviation: in one where the stream augments nothing. A view that is always the nearest, in the old
    network and in the new, would be all that is distilled.
    """

    Options: ClassVar[type[Any]] = Co2lOptions
    trains_head = False

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.views = 2 if context.inputs.augments else 1

    def attach(self, net: Network) -> None:
        """A projection head of two layers, as wide as the features."""
        super().attach(net)
        inside = net.stored["head.weight"].shape[1]
        draw = generator(self.context.seed, "init", "projection")
        self.projection: Params = {}
        for name, outside in {"hidden": inside, "out": self.options.projection}.items():
            weight, bias = torch.empty(outside, inside), torch.empty(outside)
            nn.init.kaiming_normal_(weight, nonlinearity="relu" if name == "hidden" else "linear", generator=draw)
            nn.init.uniform_(bias, -1 / sqrt(inside), 1 / sqrt(inside), generator=draw)  # a direction for features of 0
            self.projection[f"{name}.weight"] = weight.to(net.device).requires_grad_()
            self.projection[f"{name}.bias"] = bias.to(net.device).requires_grad_()
        self._past: Params = {}  # the projection head at the end of the last task
        self._meter = net.meter

    def extra_parameters(self) -> Params:
        """The projection head."""
        return self.projection

    def narrow(self, places: Mapping[str, Places]) -> None:
        """The projection reads the features that are left."""
        features = places["head.weight"][1]
        for head in (self.projection, self._past):
            if head:
                head["hidden.weight"].data = taken(head["hidden.weight"].detach(), (None, features))

    def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """What each example pays as an anchor, mean over its views.

        All have the value of their loss, so that data selection can rank them; only those of the present task have
        a gradient.
        """
        views = len(outputs.features) // len(batch)
        points = self._project(outputs.features, self.projection)
        each = contrastive_losses(points, batch.y.repeat(views), self.options.temperature).view(views, -1).mean(0)
        return torch.where(batch.task == self.task, each, each.detach())

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """Cross-entropy between old and present similarities, from the second task on."""
        if not self.teacher:
            return None
        present = self._project(outputs.features, self.projection)
        with torch.no_grad():
            past = self._project(self.teacher(batch.inputs).features, self._past)
        temperatures = self.options.past_temperature, self.options.present_temperature
        loss: Tensor = self.options.distil * relation_loss(past, present, *temperatures)
        return loss

    def _project(self, features: Tensor, head: Params) -> Tensor:
        """Projected features; charged here, as the head is no part of the network."""
        passes = 3 if torch.is_grad_enabled() else 1
        macs = head["hidden.weight"].numel() + head["out.weight"].numel()
        self._meter.charge(passes * len(features) * macs)
        return project(features, head)

    def choose(self, net: Network, images: Rows, column: int, count: int) -> Tensor:
        """At random."""
        return torch.randperm(len(images), generator=generator(self.context.seed, "exemplars", column))[:count]

    def end_task(self, net: Network, task: Task) -> None:
        """The projection head goes with the teacher."""
        super().end_task(net, task)
        self._past = {name: value.detach().clone() for name, value in self.projection.items()}

    def state_dict(self) -> State:
        """Both projection heads, besides what exemplars need."""
        present = {name: value.detach().clone() for name, value in self.projection.items()}
        return {**super().state_dict(), "projection": present, "past": dict(self._past)}

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        super().load_state_dict(state)
        for name, value in self.projection.items():
            value.data = state["projection"][name].clone().to(value)
        self._past = {name: value.clone().to(self.context.device) for name, value in state["past"].items()}


def project(features: Tensor, head: Params) -> Tensor:
    """Projected features, of length 1."""
    hidden = relu(linear(features, head["hidden.weight"], head["hidden.bias"]))
    return normalize(linear(hidden, head["out.weight"], head["out.bias"]))


def contrastive_losses(points: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """For each point, the mean over its positives of −log softmax of the similarity among all others; 0 without any."""
    apart = ~torch.eye(len(points), dtype=torch.bool, device=points.device)
    chances = _log_chances(points, temperature)
    positive = (labels[:, None] == labels[None, :]) & apart
    return -torch.where(positive, chances, 0.0).sum(1) / positive.sum(1).clamp(min=1)


def relation_loss(past: Tensor, present: Tensor, past_temperature: float, present_temperature: float) -> Tensor:
    """Mean over points of the cross-entropy between the two distributions of similarities to all other points."""
    before = _log_chances(past, past_temperature).exp()
    now = _log_chances(present, present_temperature)
    return -torch.where(before > 0, before * now, 0.0).sum(1).mean()


def _log_chances(points: Tensor, temperature: float) -> Tensor:
    """Log softmax of each point's similarities to all others; −∞ to itself."""
    own = torch.eye(len(points), dtype=torch.bool, device=points.device)
    return (points @ points.T / temperature).masked_fill(own, -torch.inf).log_softmax(1)
