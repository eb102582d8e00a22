"""WSN (Kang et al. 2022): each task learns which weights to use, by a score for each, together with the weights."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from esacl.nets.network import Network
from esacl.options import option
from esacl.ranking import largest
from esacl.rng import generator
from esacl.sparsity.isolation import Isolated, IsolationOptions
from esacl.sparsity.masks import pack, unpack
from esacl.streams.base import Examples, Task
from esacl.types import Params, State


@dataclass(frozen=True, slots=True)
class WsnOptions(IsolationOptions):
    """Settings of WSN. A level of 0.5 is the authors' c = 0.5; their scores continue."""

    level: float = option(0.5, "1 − c: share of a layer's weights that a task leaves out", low=0, high=0.9999)
    scores: Literal["continue", "restart"] = option(
        "continue", "scores of a new task: those of the last, or fresh ones"
    )


class Wsn(Isolated):
    """The mask of a task is the top c of |scores| in each layer; weights that earlier tasks use do not move.

    Scores learn through the mask as if it were |scores| itself (straight-through estimator).
    """

    Options: ClassVar[type[Any]] = WsnOptions
    dense_gradients: ClassVar[bool] = True  # every score has one

    def attach(self, net: Network) -> None:
        """Fresh scores, no mask."""
        self.scores: Params = {
            name: torch.empty_like(net.stored[name], requires_grad=True) for name in net.partition.needed()
        }
        self._draw(0)
        self.chosen: list[Params] = []  # masks of the finished tasks, packed
        self.union: Params = {}  # weights that any of them uses
        self._top: dict[str, tuple[int, Tensor]] = {}  # by layer: masks of the scores as they were at a version
        super().attach(net)

    @torch.no_grad()
    def _draw(self, task: int) -> None:
        """Scores as the authors start them: uniform within ±1/√(inputs of a unit)."""
        for name, score in self.scores.items():
            draw = generator(self.context.seed, "scores", task, name)
            score.copy_(nn.init.kaiming_uniform_(torch.empty(score.shape), a=sqrt(5), generator=draw))

    def extra_parameters(self) -> Params:
        """The scores."""
        return self.scores

    def taken(self) -> Params:
        """What finished tasks use."""
        return dict(self.union)

    def used(self, task: int) -> Params:
        """The mask that the task ended with."""
        return self._unpacked(self.chosen[task])

    def _unpacked(self, packed: Params) -> Params:
        return {name: unpack(bits, self.scores[name].shape).to(self.context.device) for name, bits in packed.items()}

    def learning(self, params: Params) -> Params:
        """Weights through the masks of the present scores."""
        return {**params, **{name: masked(params[name], self.scores[name], mask) for name, mask in self.top().items()}}

    def top(self) -> Params:
        """Masks of the largest scores of each layer, found once for as long as the scores do not move."""
        for name, score in self.scores.items():
            if name not in self._top or self._top[name][0] != score._version:
                count = round((1 - self.options.level) * score.numel())
                mask = torch.empty_like(score, dtype=torch.bool, requires_grad=False)  # in the layout of the weight
                self._top[name] = score._version, mask.copy_(largest(score.detach().abs(), count))
        return {name: mask for name, (_, mask) in self._top.items()}

    def begin_task(self, net: Network, task: Task) -> None:
        """Scores start anew, if asked for."""
        super().begin_task(net, task)
        if self.done and self.options.scores == "restart":
            self._draw(task.index)

    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Store the mask; its weights do not move again."""
        masks = self.top()
        self.chosen.append({name: pack(mask) for name, mask in masks.items()})
        self.union = {name: mask | self.union[name] if self.union else mask for name, mask in masks.items()}
        super().end_task(net, task, remembered)

    def task_state(self) -> Params:
        """The packed mask of each task, and its biases and BatchNorm."""
        masks = {f"mask.{task}.{name}": bits for task, own in enumerate(self.chosen) for name, bits in own.items()}
        return {**masks, **super().task_state()}

    def state_dict(self) -> State:
        """Scores and masks."""
        scores = {name: score.detach().clone() for name, score in self.scores.items()}
        return {**super().state_dict(), "scores": scores, "chosen": [dict(own) for own in self.chosen]}

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before, in the same scores: the network and the optimiser hold them too."""
        for name, score in self.scores.items():
            score.copy_(state["scores"][name])
        self.chosen = [{name: bits.clone() for name, bits in own.items()} for own in state["chosen"]]
        self.union = {}
        for own in self.chosen:
            masks = self._unpacked(own)
            self.union = {name: mask | self.union[name] if self.union else mask for name, mask in masks.items()}
        super().load_state_dict(state)


def masked(weight: Tensor, score: Tensor, mask: Tensor) -> Tensor:
    """The weight where the mask is true, else 0; the score learns as if the mask were its magnitude.

    >>> weight = torch.tensor([2.0, 3.0], requires_grad=True)
    >>> score = torch.tensor([0.5, -0.1], requires_grad=True)
    >>> masked(weight, score, torch.tensor([True, False])).sum().backward()
    >>> weight.grad, score.grad
    (tensor([1., 0.]), tensor([ 2., -3.]))
    """
    effective: Tensor = ThroughMask.apply(weight, score, mask)  # type: ignore[no-untyped-call]
    return effective


class ThroughMask(torch.autograd.Function):
    """To the weight w the gradient g passes where the mask is true; the score s gets sign(s) · w · g everywhere."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, score: Tensor, mask: Tensor) -> Tensor:
        """The masked weight."""
        ctx.save_for_backward(weight, score, mask)
        return torch.where(mask, weight, 0.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients of weight and score."""
        weight, score, mask = ctx.saved_tensors
        return torch.where(mask, gradient, 0.0), gradient * weight * score.sign(), None
