"""The sharpness-aware gradient: the gradient at the worst point nearby instead of here (SAM; Foret et al. 2021)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.optim.gradient import GradientRule, Losses, Selection, call, forward_and_rank, mean, total
from esacl.options import option
from esacl.problem import Problem
from esacl.types import Batch, Context, Params, State, Trace


@dataclass(frozen=True, slots=True)
class SharpnessOptions:
    """Settings of the ascent."""

    rho: float = option(0.0, "ρ: length of the ascent; 0 is the plain gradient", low=0, high=100)
    ascent: Literal["fit", "total"] = option(
        "total", "loss that is ascended: that of all tasks (current and replayed examples), or the current task's alone"
    )
    replay: float = option(1.0, "share of the replayed examples that the ascent sees", low=0.01, high=1)
    every: int = option(1, "ascend in every k-th step only, re-using its second direction in between", low=1)
    reuse: float = option(0.7, "weight of the re-used direction", low=0)


class SharpnessAware(GradientRule):
    """g = ∇ℓ(θ + ε; update set), ε = ρ · ∇ℓ(θ; support set) / ‖∇ℓ(θ; support set)‖: Eq. 14 and 18 (ascent).

    Between ascents (`every` > 1) the part of the last g that was orthogonal to the plain gradient is added to the
    plain gradient, in proportion (LookSAM; Liu et al. 2022). That needs both gradients of the same loss, so the
    ascent is then of the total loss. Statistics of BatchNorm see θ only, never θ + ε.

    The loss ℓ is that of all tasks (Eq. 8-10): an ascent of the current task's loss alone makes its gradient larger
    than that of the replayed examples (docs/decisions.md).
    """

    Options: ClassVar[type[Any]] = SharpnessOptions

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.steps = 0  # of this task
        self.second: Params = {}  # the direction to re-use: of length 1 over all parameters
        self._before: Params = {}  # room for θ during an ascent

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """A direction can be re-used only where both gradients are of the same loss on the same examples."""
        own, chosen = options["gradient"], options.get("selection", {})
        reuses = partial(Problem, setting="gradient.every", value=own["every"])
        same = "{given} re-uses a direction, for which ascent and descent must see the same examples, but "
        if own["every"] > 1 and own["ascent"] == "fit":
            return reuses(
                "{given} re-uses a direction, for which the ascent must be of the total loss, but "
                "{gradient.ascent:fit} was given.",
                remedy="Leave {gradient.ascent} out, or use {gradient.every:1}.",
            )
        if own["every"] > 1 and own["replay"] < 1:
            return reuses(
                same + "{gradient.replay:{replay}} was given.",
                remedy="Leave {gradient.replay} out, or use {gradient.every:1}.",
                replay=own["replay"],
            )
        if own["every"] > 1 and chosen.get("keep", 1) < 1 and chosen.get("support") != chosen.get("redundant"):
            return reuses(
                same + "{selection.support} and {selection.redundant} differ.",
                remedy="Set both alike, or use {gradient.every:1}.",
            )
        return None

    @property
    def passes(self) -> float:
        """Two in a step that ascends."""
        return 1.0 if self.options.rho == 0 else 1 + 1 / self.options.every

    def begin_task(self) -> None:
        """No direction of the last task is re-used."""
        self.steps, self.second, self._before = 0, {}, {}

    def compute_gradients(self, net: Network, objective: Losses, batch: Batch, selector: Selection) -> Trace:
        """Leave the gradient of this step in the parameters."""
        if self.options.rho == 0:
            return super().compute_gradients(net, objective, batch, selector)
        ascend = self.steps % self.options.every == 0
        self.steps += 1
        if ascend:
            return self._ascend(net, objective, batch, selector)
        trace = super().compute_gradients(net, objective, batch, selector)
        self._add_second(net.gradients())
        return trace

    def _ascend(self, net: Network, objective: Losses, batch: Batch, selector: Selection) -> Trace:
        replay = objective.rehearse()
        ascended = None
        if self.options.ascent == "total" and replay is not None:
            ascended = replay if self.options.replay == 1 else replay.part(self.options.replay)
        seen = forward_and_rank(net, objective, batch, selector.ranking, selector.support_set, ascended)
        loss = mean(seen.fit, selector.weights(batch, seen.rows))
        if self.options.ascent == "total":
            loss = total(loss, objective.retain_loss(net, seen.outputs, seen.batch, seen.replay))
        net.backward(loss)
        first = {name: gradient.clone() for name, gradient in net.gradients().items()} if self.options.every > 1 else {}
        rows = selector.update_set(batch, seen.known)
        part = batch if rows is None else batch.take(rows)
        with self._ascended(net), net.untracked():
            outputs, answered = call(net, part, replay)
            fit = mean(objective.fit_loss(outputs, part), selector.weights(batch, rows))
            loss = total(fit, objective.retain_loss(net, outputs, part, answered))
            net.backward(loss)
        if first:
            self._keep_second(first, net.gradients())
        return seen.trace(loss, len(part))

    @contextmanager
    def _ascended(self, net: Network) -> Iterator[None]:
        """θ + ε, or θ where 16-bit arithmetic left no finite direction; afterwards θ again, bit for bit."""
        gradients = net.gradients()
        length = norm(gradients)
        scale = torch.where(length.isfinite(), self.options.rho / length.clamp(min=1e-12), 0.0)
        for name in gradients:
            if name not in self._before:
                self._before[name] = torch.empty_like(net.trained[name])
        with torch.no_grad():
            for name, gradient in gradients.items():
                self._before[name].copy_(net.trained[name])
                net.trained[name].addcmul_(torch.where(length.isfinite(), gradient, 0.0), scale)
        try:
            yield
        finally:
            with torch.no_grad():
                for name in gradients:
                    net.trained[name].copy_(self._before[name])

    def _keep_second(self, first: Params, at_worst: Params) -> None:
        """What of the second gradient is orthogonal to the first."""
        along = inner(first, at_worst) / inner(first, first).clamp(min=1e-24)
        rest = {name: at_worst[name] - along * first[name] for name in first if name in at_worst}
        length = norm(rest).clamp(min=1e-12)
        self.second = {name: torch.where(length.isfinite(), value / length, 0.0) for name, value in rest.items()}

    def _add_second(self, gradients: Params) -> None:
        length = self.options.reuse * norm(gradients)
        for name, direction in self.second.items():
            if name in gradients:
                gradients[name].addcmul_(direction, length)

    def state_dict(self) -> State:
        """The direction to re-use, and when to renew it."""
        return {"steps": self.steps, "second": dict(self.second)}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.steps = state["steps"]
        self.second = {name: value.to(self.context.device) for name, value in state["second"].items()}


def inner(one: Params, other: Params) -> Tensor:
    """Scalar product over all parameters."""
    return torch.stack([(one[name] * other[name]).sum() for name in one if name in other]).sum()


def norm(values: Params) -> Tensor:
    """Euclidean norm over all parameters."""
    return inner(values, values).sqrt()
