"""Look-ahead meta-learning (La-MAML; Gupta, Yadav & Paull 2020): a learned rate for every weight.

The gradient rule tries the rates out on fast weights, and the update rule moves first the rates, then the weights.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import relu
from torch.nn.utils import clip_grad_norm_

from esacl.nets.network import Network
from esacl.nets.traits import ByNorm
from esacl.optim.gradient import GradientRule, Losses, Selection, call, forward_and_rank, mean, total
from esacl.optim.update import UpdateRule
from esacl.options import option
from esacl.types import Batch, Columns, Context, Params, State, Trace

SMALLEST = 2  # examples of a slice: BatchNorm cannot normalise one
LIMITS = {"value": 0.02, "norm": 2.0}  # of an inner gradient (docs/methods/la-maml.md)


@dataclass(frozen=True, slots=True)
class LookaheadOptions:
    """Settings of the look-ahead. The authors take inner steps on one or two examples, from batches of ten."""

    slices: int = option(4, "inner steps a batch: slices of two examples or more that it is cut into", low=1)
    clip: float | None = option(
        None, "limit of an inner gradient (default: 0.02 by value, 2 by norm)", low=1e-9, high=1e9
    )
    clip_by: Literal["value", "norm"] = option("value", "what the limit is of: each entry, or the norm of all together")
    meta: Literal["mean", "sum"] = option("mean", "the losses after the inner steps: their mean, or their sum")
    second_order: bool = option(False, "differentiate the inner gradients too")
    glances: int = option(1, "steps that are taken on each batch", low=1, high=1000)


class Lookahead(GradientRule):
    """The gradient of the loss further on, with respect to the weights θ and to their rates α.

    Inner steps on slices of the batch: θ_k = θ_{k−1} − relu(α) · clip(∇ℓ(θ_{k−1}; slice k)), θ_0 = θ. Meta-loss: fit +
    retention of the whole batch at θ_1, θ_2, ..., with the same replayed examples at each. To first order the inner
    gradients are constants. Statistics of BatchNorm see the last meta-loss only, as often as in a plain step.
    Deviation: slices of several examples, and the mean of the meta-losses (docs/methods/la-maml.md).
    """

    Options: ClassVar[type[Any]] = LookaheadOptions
    fast_weights = True
    untold_columns = "seen"

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """Of each example's own task, replayed ones too, as in the authors' code."""
        return "task"

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Looking ahead by rates that nobody learns."""
        if "rate_lr" in options["update"]:
            return None
        return "the look-ahead needs learned rates. Fill the update slot with LearnedRates, or use another gradient."

    @property
    def glances(self) -> int:
        """Steps that are taken on each batch."""
        return int(self.options.glances)

    def compute_gradients(self, net: Network, objective: Losses, batch: Batch, selector: Selection) -> Trace:
        """Leave the gradients of weights and rates."""
        slices: list[Tensor] = []

        def first(batch: Batch, fit: Tensor | None) -> Tensor:
            slices.extend(self._cut(batch, selector.update_set(batch, fit)))
            return slices[0]

        with net.untracked():
            seen = forward_and_rank(net, objective, batch, selector.ranking, first)
            path = self._path(net, objective, batch, slices, seen.fit.mean())
        counted = torch.cat(slices)
        part = batch if len(counted) == len(batch) else batch.take(counted)
        loss = self._meta_loss(net, objective, part, path, selector.weights(batch, counted))
        net.backward(loss)
        return seen.trace(loss, len(part))

    def _cut(self, batch: Batch, rows: Tensor | None) -> tuple[Tensor, ...]:
        """The rows that count, in slices of nearly equal size."""
        if rows is None:
            rows = torch.arange(len(batch), device=batch.y.device)
        return rows.tensor_split(max(1, min(self.options.slices, len(rows) // SMALLEST)))

    def _path(self, net: Network, objective: Losses, batch: Batch, slices: list[Tensor], loss: Tensor) -> list[Params]:
        """Fast weights after each inner step; `loss` is that of the first slice, at θ."""
        rates = {name: relu(net.extra[f"update.{name}"]) for name in net.stored}
        path = [self._inner_step(net, net.stored, rates, loss)]
        for rows in slices[1:]:
            part = batch.take(rows)
            with _using(net, path[-1]):
                loss = objective.fit_loss(net(part.inputs), part).mean()
            path.append(self._inner_step(net, path[-1], rates, loss))
        if self.options.second_order:  # each product of a pass is differentiated with respect to both of its factors
            net.meter.charge(6 * len(batch.views) * sum(map(len, slices)) * net.meter.dense)
        return path

    def _inner_step(self, net: Network, fast: Params, rates: Params, loss: Tensor) -> Params:
        second = self.options.second_order
        gradients = torch.autograd.grad(loss, list(fast.values()), create_graph=second, materialize_grads=True)
        if not second:
            net.meter.release()
        by = self.options.clip_by
        limited = clipped(gradients, self.options.clip or LIMITS[by], by)
        return {name: fast[name] - rates[name] * own for name, own in zip(fast, limited)}

    def _meta_loss(
        self, net: Network, objective: Losses, part: Batch, path: list[Params], weights: Tensor | None
    ) -> Tensor:
        replay, losses = objective.rehearse(), []
        for fast in path:
            with _using(net, fast), nullcontext() if fast is path[-1] else net.untracked():
                outputs, replayed = call(net, part, replay)
                fit = mean(objective.fit_loss(outputs, part), weights)
                losses.append(total(fit, objective.retain_loss(net, outputs, part, replayed)))
        added = torch.stack(losses).sum()
        return added if self.options.meta == "sum" else added / len(losses)


def _using(net: Network, fast: Params) -> AbstractContextManager[None]:
    """Answer with fast weights, seen as the stored ones are."""
    return net.using(fast if net.view is None else net.view(fast, None))


def clipped(gradients: Sequence[Tensor], limit: float, by: str) -> list[Tensor]:
    """Gradients with no entry, or no common norm, above `limit`; differentiable, also where all are zero.

    >>> clipped([torch.tensor([3.0, -4.0])], 2.5, "value"), clipped([torch.tensor([3.0, -4.0])], 2.5, "norm")
    ([tensor([ 2.5000, -2.5000])], [tensor([ 1.5000, -2.0000])])
    """
    if by == "value":
        return [own.clamp(-limit, limit) for own in gradients]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(own) for own in gradients]))
    factor = limit / norm.clamp(min=limit)
    return [factor * own for own in gradients]


@dataclass(frozen=True, slots=True)
class RateOptions:
    """Settings of the learned rates; 0.3 and 2.0 are the authors' for MNIST (CIFAR-100: 0.25 and 1.0)."""

    lr: float | None = option(None, "initial rate of every weight (default: by network)", low=1e-9, high=1e6)
    rate_lr: float = option(0.3, "rate at which the rates are learned", low=0, high=1e6)
    clip: float = option(2.0, "largest norm of the weights' gradient, and of the rates'", low=1e-9, high=1e9)
    schedule: Literal["constant", "cosine"] = option("cosine", "factor on all steps but the inner ones in each task")


class LearnedRates(UpdateRule):
    """α ← α − `rate_lr` · clip(∇α), then θ ← θ − relu(α) · clip(∇θ); the rates live as long as the network."""

    Options: ClassVar[type[Any]] = RateOptions
    rates: ClassVar[ByNorm] = ByNorm(batchnorm=0.1, plain=0.1)

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.learned: Params = {}

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Rates that no gradient reaches."""
        if "slices" in options["gradient"]:
            return None
        return "learned rates need the look-ahead. Fill the gradient slot with Lookahead, or use another update."

    @property
    def remedy(self) -> str:
        """What to do when training diverges."""
        return (
            f"Use a smaller {{update.lr}} than {self.options.lr:g}, or a smaller {{update.rate_lr}} than "
            f"{self.options.rate_lr:g}."
        )

    def attach(self, net: Network) -> None:
        """One rate for every weight."""
        self.learned = {
            name: torch.full_like(value, self.options.lr, requires_grad=True) for name, value in net.stored.items()
        }

    def extra_parameters(self) -> Params:
        """The rates."""
        return self.learned

    def build(self, net: Network, frozen: Params, steps: int) -> torch.optim.Optimizer:
        """Rates, the other parts' own parameters, weights: in this order."""
        rates = [self.learned[name] for name in net.stored]
        others = [value for name, value in net.extra.items() if not name.startswith("update.")]
        return RatesFirst(list(net.stored.values()), rates, others, self.options)

    def state_dict(self) -> State:
        """The rates."""
        return {"learned": {name: value.detach().clone() for name, value in self.learned.items()}}

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before, in the same tensors: the network and the optimiser hold them too."""
        for name, value in state["learned"].items():
            self.learned[name].copy_(value)


class RatesFirst(torch.optim.Optimizer):
    """One step of the rates, then one of the weights by the new rates; what has no rate moves at the initial one."""

    def __init__(self, weights: list[Tensor], rates: list[Tensor], others: list[Tensor], options: RateOptions) -> None:
        groups: list[dict[str, Any]] = [
            {"params": rates, "lr": options.rate_lr, "initial_lr": options.rate_lr},
            {"params": others},
            {"params": weights},
        ]
        super().__init__(groups, {"lr": options.lr, "initial_lr": options.lr, "clip": options.clip})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Rates, others, weights."""
        rates, others, weights = self.param_groups
        for group in (rates, weights):
            clip_grad_norm_(group["params"], group["clip"])
        for group in (rates, others):
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=group["lr"])
        share = weights["lr"] / weights["initial_lr"]
        for weight, rate in zip(weights["params"], rates["params"]):
            if weight.grad is not None:
                weight.addcmul_(relu(rate), weight.grad, value=-share)
