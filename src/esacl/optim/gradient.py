"""The gradient slot: from a batch to the gradients of a step, with θ unchanged on return."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.part import Part
from esacl.types import Batch, Outputs, Replay, Trace

Choose = Callable[[Batch, Tensor | None], Tensor | None]


class Losses(Protocol):
    """What a gradient rule needs of an objective."""

    def fit_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Loss of each example."""
        ...

    def rehearse(self) -> Replay | None:
        """Examples to replay in this step, if any."""
        ...

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """Retention term, if any."""
        ...

    def rows_to_store(self, batch: Batch) -> Tensor | None:
        """Rows whose outputs at θ are needed after the step."""
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

    def weights(self, batch: Batch, rows: Tensor | None) -> Tensor | None:
        """Weights of the chosen rows' losses; None where all weigh the same."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a batch at θ."""

    batch: Batch  # the rows that count: the whole batch, or those that were chosen
    rows: Tensor | None  # which these are; None for all
    outputs: Outputs  # of all views of `batch`, with gradients
    fit: Tensor  # of `batch` on its own: losses that compare examples compare those that count
    known: Tensor | None  # fit losses of the whole batch, where they are fresh
    replay: Replay | None  # what was replayed with it, and the answers to that
    trace: Callable[[Tensor, int], Trace]  # the record of a step that minimised a loss over so many rows


def call(net: Network, batch: Batch, replay: Replay | None) -> tuple[Outputs, Replay | None]:
    """Answers to a batch and to what is replayed with it: one forward pass for both, unless they are to be apart."""
    if replay is None:
        return net(batch.inputs), None
    if replay.apart:
        return net(batch.inputs), replace(replay, outputs=net(replay.x))
    inputs = batch.inputs
    features, logits = net(torch.cat([inputs, replay.x]))
    current = Outputs(features[: len(inputs)], logits[: len(inputs)])
    return current, replace(replay, outputs=Outputs(features[len(inputs) :], logits[len(inputs) :]))


def forward_and_rank(
    net: Network, objective: Losses, batch: Batch, ranking: str, choose: Choose, replay: Replay | None = None
) -> Look:
    """Fit losses at θ of the rows that `choose` wants, with as few calls for other rows as the ranking allows."""
    if ranking == "reuse":
        outputs, replay = call(net, batch, replay)
        fit = objective.fit_loss(outputs, batch)
        fresh = fit.detach()
        trace, rows = _recorder(batch, outputs, fresh), choose(batch, fresh)
        if rows is None:
            return Look(batch, None, outputs, fit, fresh, replay, trace)
        part = batch.take(rows)
        places = torch.cat([rows + view * len(batch) for view in range(len(batch.views))])
        outputs = Outputs(outputs.features[places], outputs.logits[places])
        return Look(part, rows, outputs, objective.fit_loss(outputs, part), fresh, replay, trace)
    ranked: tuple[Outputs, Tensor] | None = None
    if ranking == "pass":
        with torch.no_grad(), net.untracked():
            outputs = net(batch.inputs)
            ranked = outputs, objective.fit_loss(outputs, batch)
    rows = choose(batch, None if ranked is None else ranked[1])
    part = batch if rows is None else batch.take(rows)
    outputs, replay = call(net, part, replay)
    fit = objective.fit_loss(outputs, part)
    if rows is None:
        return Look(part, None, outputs, fit, fit.detach(), replay, _recorder(batch, outputs, fit.detach()))
    if ranked is not None:
        return Look(part, rows, outputs, fit, ranked[1], replay, _recorder(batch, *ranked))
    seen = _with_wanted(net, objective, batch, part, outputs, fit, rows, replay)
    return Look(part, rows, outputs, fit, None, replay, _recorder(batch, *seen))


@torch.no_grad()
def _with_wanted(
    net: Network,
    objective: Losses,
    batch: Batch,
    part: Batch,
    outputs: Outputs,
    fit: Tensor,
    rows: Tensor,
    replay: Replay | None,
) -> tuple[Outputs, Tensor, Tensor]:
    """Outputs and losses of the rows that were called, and of those that are only wanted for the memory.

    The latter are called apart, so that they touch neither the gradient nor any statistic. BatchNorm normalises them
    by the batch as it does the others, so what was learnt from in the same pass comes along: the other rows of the
    batch, and what was replayed with them.
    """
    seen = Outputs(outputs.features[: len(part)], outputs.logits[: len(part)])
    losses = fit.detach()
    wanted = objective.rows_to_store(batch)
    if wanted is not None:
        missing = torch.ones(len(batch), dtype=torch.bool, device=rows.device)
        missing[rows] = False
        others = wanted[missing[wanted]]
        if len(others):
            rest = batch.take(others)
            replayed = [] if replay is None or replay.apart else [replay.x]
            company = [part.x, *replayed] if net.normalises_by_batch else []
            with net.untracked():
                more = Outputs(*(values[: len(rest)] for values in net(torch.cat([rest.x, *company]))))
            seen = Outputs(torch.cat([seen.features, more.features]), torch.cat([seen.logits, more.logits]))
            unknown = len(rest.views) > 1  # a loss over several views is not to be had from one
            rest_fit = torch.full_like(losses[:1], inf).expand(len(rest)) if unknown else objective.fit_loss(more, rest)
            losses = torch.cat([losses, rest_fit])
            rows = torch.cat([rows, others])
    return seen, losses, rows


def _recorder(
    batch: Batch, outputs: Outputs, losses: Tensor, rows: Tensor | None = None
) -> Callable[[Tensor, int], Trace]:
    seen = Outputs(outputs.features.detach(), outputs.logits.detach())
    return lambda loss, updated: Trace(batch, seen, losses, loss.detach(), updated, rows)


class GradientRule(Part):
    """The plain gradient of fit + retention."""

    fast_weights: ClassVar[bool] = False  # whether it calls the network with weights that are not the stored ones

    @property
    def glances(self) -> int:
        """Steps that are taken on each batch."""
        return 1

    @property
    def passes(self) -> float:
        """Gradients that a step takes."""
        return 1.0

    def compute_gradients(self, net: Network, objective: Losses, batch: Batch, selector: Selection) -> Trace:
        """Leave the gradient of this step in the parameters."""
        seen = forward_and_rank(net, objective, batch, selector.ranking, selector.update_set, objective.rehearse())
        fit = mean(seen.fit, selector.weights(batch, seen.rows))
        loss = total(fit, objective.retain_loss(net, seen.outputs, seen.batch, seen.replay))
        net.backward(loss)
        return seen.trace(loss, len(seen.batch))

    def begin_task(self) -> None:
        """A task starts."""


def mean(fit: Tensor, weights: Tensor | None) -> Tensor:
    """Mean fit loss of the rows that count; with weights, an estimate of that of the whole batch."""
    return fit.mean() if weights is None else (weights * fit).mean()


def total(fit: Tensor, retained: Tensor | None) -> Tensor:
    """Fit + retention."""
    return fit if retained is None else fit + retained
