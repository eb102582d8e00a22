"""A linear probe: a head fitted on frozen features when a task has ended, every class with the same weight."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.columns import MASKED
from esacl.nets.network import Network
from esacl.objectives.exemplars import features_of
from esacl.objectives.readout import Readout, one_for_all_tasks, one_normalisation
from esacl.options import option
from esacl.part import Part
from esacl.problem import Problem
from esacl.streams.base import Examples, Task


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Settings of the probe. Deviation: the exact minimum by L-BFGS, where the authors sample and step by SGD."""

    decay: float = option(0.001, "λ in mean loss + λ/2 · ‖W‖²", low=0, high=1_000_000)
    iterations: int = option(200, "steps of L-BFGS at most", low=1, high=100_000)


class LinearProbe(Readout):
    """Logistic regression on the features of the task and of the remembered examples of earlier ones.

    Every class weighs the same, as if sampled so. The result is written into the network's own head, so that the
    saved model answers as the evaluated one; classes not seen yet are out of the question. No loss may read that head.
    """

    Options: ClassVar[type[Any]] = ProbeOptions
    answers_unseen = False

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """A head that losses read, or one for weights that change with the task."""
        if getattr(parts["objective"], "trains_head", True):
            return Problem(
                "the linear probe replaces the head after every task, but {objective} goes on training it.",
                remedy="Use {parts.readout:nearest-mean} or {parts.readout:head}, or an objective of features, such as "
                "co2l.",
                objective=parts["objective"].__name__,
            )
        return one_for_all_tasks("linear probe", parts)

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Features that are normalised otherwise in every task."""
        return one_normalisation("linear probe", options)

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Replace the head."""
        images, labels = task.train.x, task.train.y
        if remembered is not None:
            earlier = remembered.take(not_among(remembered, task))
            images, labels = torch.cat([images, earlier.x]), torch.cat([labels, earlier.y])
        columns, places = torch.unique(labels, return_inverse=True)
        features = features_of(net, self.context, images).cpu().double()
        weight, bias, calls = fit_probe(features, places, self.options.decay, self.options.iterations)
        net.meter.charge(3 * calls * features.numel() * len(columns))
        head, offset = net.stored["head.weight"], net.stored["head.bias"]
        with torch.no_grad():
            head.zero_()
            offset.fill_(MASKED)
            head[columns] = weight.to(head)
            offset[columns] = bias.to(offset)


def not_among(remembered: Examples, task: Task) -> Tensor:
    """Rows of what is remembered that the task does not have: of earlier tasks, whether or not their classes return."""
    twice = set(_identities(remembered)).intersection(_identities(task.train))
    return torch.tensor([row for row, each in enumerate(_identities(remembered)) if each not in twice]).long()


def _identities(examples: Examples) -> Iterator[tuple[int, bytes]]:
    """What an example is told by: its class and its image."""
    return zip(examples.y.tolist(), (image.tobytes() for image in examples.x.numpy()))


def fit_probe(features: Tensor, labels: Tensor, decay: float, iterations: int) -> tuple[Tensor, Tensor, int]:
    """Weights and biases that minimise the class-balanced cross-entropy + decay/2 · ‖W‖²; and the calls it took."""
    classes = int(labels.max()) + 1
    balance = len(labels) / (classes * labels.bincount(minlength=classes).to(features))
    weight = features.new_zeros(classes, features.shape[1], requires_grad=True)
    bias = features.new_zeros(classes, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=iterations, line_search_fn="strong_wolfe")
    calls = 0

    def loss() -> Tensor:
        nonlocal calls
        calls += 1
        solver.zero_grad()
        each = cross_entropy(features @ weight.T + bias, labels, reduction="none")
        value = (balance[labels] * each).mean() + decay / 2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        solver.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach(), calls
