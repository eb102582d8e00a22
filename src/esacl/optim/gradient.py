"""The gradient slot: from a batch to the gradients of a step, with θ unchanged on return."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.part import Part
from esacl.types import Batch, Outputs, State, Trace

Choose = Callable[[Batch, Tensor | None], Tensor | None]


class Losses(Protocol):
    """What a gradient rule needs of an objective."""

    def fit_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Loss of each example."""
        ...

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch) -> Tensor | None:
        """Retention term, if any."""
        ...

    def wanted(self, batch: Batch) -> Tensor | None:
        """Rows whose outputs at θ are needed after the step."""
        ...

    def mark(self) -> State:
        """Where the random choices of the retention term stand."""
        ...

    def rewind(self, mark: State) -> None:
        """Make the random choices since the mark again."""
        ...


class Selection(Protocol):
    """What a gradient rule needs of a data selector."""

    @property
    def ranking(self) -> str:
        """Where the losses that it ranks by come from: "pass", "reuse", or "none" where it needs no fresh ones."""
        ...

    def support_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        """Rows for the ascent; None for all."""
        ...

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        """Rows for the descent; None for all."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a batch at θ."""

    batch: Batch  # what was called with gradients: the whole batch, or the rows that mattered
    outputs: Outputs
    fit: Tensor  # of `batch`, with gradients
    chosen: Tensor | None  # rows of `batch` that count; None for all
    known: Tensor | None  # fresh fit losses of the whole batch, where they were asked for
    seen: Outputs  # what is kept of it for the trace: outputs and losses of `rows`
    losses: Tensor
    rows: Tensor | None

    @property
    def loss(self) -> Tensor:
        """Mean fit loss of the rows that count."""
        return (self.fit if self.chosen is None else self.fit[self.chosen]).mean()

    @property
    def count(self) -> int:
        """How many rows count."""
        return len(self.fit) if self.chosen is None else len(self.chosen)

    def trace(self, batch: Batch, loss: Tensor, updated: int) -> Trace:
        """The record of a step that minimised `loss`."""
        return Trace(batch, self.seen, self.losses, loss.detach(), updated, self.rows)


def look(net: Network, objective: Losses, batch: Batch, ranking: str, choose: Choose) -> Look:
    """Fit losses at θ of the rows that `choose` wants, with as few calls for other rows as the ranking allows."""
    if ranking == "reuse":
        outputs = net(batch.inputs)
        fit = objective.fit_loss(outputs, batch)
        fresh = fit.detach()
        return Look(batch, outputs, fit, choose(batch, fresh), fresh, _detached(outputs), fresh, None)
    known: Tensor | None = None
    seen: Outputs | None = None
    if ranking == "pass":
        with torch.no_grad(), net.untracked():
            seen = net(batch.inputs)
            known = objective.fit_loss(seen, batch)
    rows = chosen = choose(batch, known)
    part = batch
    if rows is not None:
        if seen is None and (wanted := objective.wanted(batch)) is not None:
            rows, chosen = _union(rows, wanted, len(batch))
        else:
            chosen = None
        part = batch.take(rows)
    outputs = net(part.inputs)
    fit = objective.fit_loss(outputs, part)
    if seen is not None and known is not None:
        return Look(part, outputs, fit, chosen, known, seen, known, None)
    return Look(part, outputs, fit, chosen, None, _detached(outputs), fit.detach(), rows)


def _detached(outputs: Outputs) -> Outputs:
    return Outputs(outputs.features.detach(), outputs.logits.detach())


def _union(rows: Tensor, others: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """All of both, sorted, and where among them `rows` are."""
    member = torch.zeros(2, size, dtype=torch.bool, device=rows.device)
    member[0, rows] = True
    member[1, others] = True
    together = member.any(0)
    return together.nonzero().squeeze(1), member[0][together].nonzero().squeeze(1)


class GradientRule(Part):
    """The plain gradient of fit + retention."""

    ascends: ClassVar[bool] = False  # whether it has an ascent step, which a support set needs

    def fill(self, net: Network, objective: Losses, batch: Batch, selector: Selection) -> Trace:
        """Leave the gradient of this step in the parameters."""
        seen = look(net, objective, batch, selector.ranking, selector.update_set)
        loss = total(seen.loss, objective.retain_loss(net, seen.outputs, seen.batch))
        net.backward(loss)
        return seen.trace(batch, loss, seen.count)

    def begin_task(self) -> None:
        """A task starts."""


def total(fit: Tensor, retained: Tensor | None) -> Tensor:
    """Fit + retention."""
    return fit if retained is None else fit + retained
