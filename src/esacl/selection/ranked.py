"""Data selection by loss: the support set of the ascent (SSE), the update set of the descent (ERE), and a control."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.traits import NetTraits
from esacl.options import option
from esacl.problem import Problem
from esacl.ranking import largest
from esacl.rng import generator
from esacl.selection.base import DataSelector
from esacl.types import Batch, Context, State, Trace

TAIL = 0.125  # share of a task's epochs at its end in which InfoBatch leaves nothing out
SAMPLED = 0.2  # share of the kept rows that is sampled from the small losses at least: few would weigh too much


@dataclass(frozen=True, slots=True)
class RankedOptions:
    """Settings of data selection."""

    keep: float = option(1.0, "share of each batch that is learnt from", low=0.01, high=1)
    rule: Literal["random", "loss", "unbiased"] = option(
        "random", "which: at random; those with the largest losses (SSE, ERE); or the large ones and a weighted sample"
    )
    ranking: Literal["pass", "reuse", "stale"] = option(
        "stale", "losses by an extra pass, by the ascent's own pass over the whole batch, or those last seen"
    )
    support: bool = option(True, "select for the ascent (SSE)")
    redundant: bool = option(True, "select for the descent: leave out what is redundant (ERE)")
    warmup: int = option(0, "epochs of each task before selection starts", low=0)
    tail: float | None = option(
        None, "last share of a task's epochs that sees all data (default: 0.125 for unbiased, else 0)", low=0, high=1
    )


class Ranked(DataSelector):
    """The `keep` largest losses of a batch: Eq. 17 (SSE) for the ascent, Eq. 21 (ERE) for the descent.

    With stale losses an example that was never seen ranks first. The random rule is the control at equal cost.

    The unbiased rule keeps what lies above the mean loss and a sample of the rest, which weighs for all of the rest, so
    the gradient is that of the whole batch in the mean (after InfoBatch; Qin et al. 2024). Deviation: it samples within
    each batch, a fixed number, so that it costs what the other rules cost.
    """

    Options: ClassVar[type[Any]] = RankedOptions

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.step = 0
        self.epoch = 0
        self.task = -1
        self.losses = torch.empty(0)  # of each example of the task when it was last seen
        self._stands_for: Tensor | None = None  # how many rows of the batch each row stands for, if chosen

    @classmethod
    def defaults(cls, net: NetTraits, options: Mapping[str, Any]) -> dict[str, Any]:
        """How long all data are seen at the end of a task."""
        return {"tail": TAIL if options["rule"] == "unbiased" else 0.0}

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """A share to keep, and nothing to keep it from."""
        own, ascends = options["selection"], options.get("gradient", {}).get("rho", 0) > 0
        if own["keep"] == 1 or own["redundant"] or (own["support"] and ascends):
            return None
        return Problem(
            "{given} selects nothing: {selection.redundant} is false and there is {nothing}.",
            "selection.keep",
            own["keep"],
            remedy="Leave {selection.keep} out, use {selection.redundant:true}, or ascend with {gradient.rho} and "
            "{selection.support:true}.",
            nothing="no selection for the ascent either" if ascends else "no ascent",
        )

    @property
    def active(self) -> bool:
        """Whether it leaves anything out now."""
        wished = self.options.keep < 1 and (self.options.support or self.options.redundant)
        over = bool(self.options.tail) and self.epoch >= self.context.epochs * (1 - self.options.tail)
        return bool(wished) and self.epoch >= self.options.warmup and not over

    @property
    def kept_share(self) -> float:
        """What is left for the descent."""
        return float(self.options.keep) if self.options.redundant else 1.0

    @property
    def ranking(self) -> str:
        """Fresh losses are needed only while it selects by them."""
        fresh = self.active and self.options.rule != "random" and self.options.ranking != "stale"
        return str(self.options.ranking) if fresh else "none"

    def epoch_subset(self, examples: int, epoch: int) -> Tensor | None:
        """All; takes notice of the epoch."""
        self.epoch = epoch
        return None

    def support_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        """SSE."""
        return self._choose(batch, fit) if self.options.support else None

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        """ERE."""
        return self._choose(batch, fit) if self.options.redundant else None

    def weights(self, batch: Batch, rows: Tensor | None) -> Tensor | None:
        """By the unbiased rule: each sampled row stands for others, and the mean is over the whole batch."""
        if rows is None or self._stands_for is None:
            return None
        return self._stands_for[rows] * (len(rows) / len(batch))

    def _choose(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        self._stands_for = None
        if not self.active:
            return None
        count = max(1, round(self.options.keep * len(batch)))
        draw = generator(self.context.seed, "selection", self.task, self.step)  # the same in ascent and descent
        chance = torch.rand(len(batch), generator=draw).to(batch.y.device)
        if self.options.rule == "random":
            return largest(chance, count).nonzero().squeeze(1)
        losses = self.losses[batch.index.cpu()].to(batch.y.device) if fit is None else fit
        if self.options.rule == "loss":
            chosen = largest(losses, count)
        else:
            sure = largest(losses, sure_rows(losses, count))
            chosen = largest(chance.masked_fill(sure, inf), count)
            sampled = count - int(sure.sum())
            self._stands_for = torch.where(sure, 1.0, (len(batch) - int(sure.sum())) / sampled)
        return chosen.nonzero().squeeze(1)

    def begin_task(self, examples: int) -> None:
        """Nothing of the new task was seen."""
        self.task += 1
        self.step = self.epoch = 0
        self.losses = torch.full((examples,), inf)

    def observe(self, trace: Trace) -> None:
        """Remember the losses."""
        self.step += 1
        if self.options.rule != "random" and self.options.keep < 1:
            index = trace.batch.index if trace.rows is None else trace.batch.index[trace.rows]
            self.losses[index.cpu()] = trace.fit.cpu()

    def state_dict(self) -> State:
        """Losses seen so far, and where it stands."""
        return {"step": self.step, "epoch": self.epoch, "task": self.task, "losses": self.losses.clone()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.step, self.epoch, self.task = state["step"], state["epoch"], state["task"]
        self.losses = state["losses"].clone().cpu()


def sure_rows(losses: Tensor, count: int) -> int:
    """How many rows the unbiased rule keeps for sure: those above the mean loss, as far as that leaves some to sample.

    Losses that were never seen are infinite: they lie above the mean of those that were.

    >>> sure_rows(torch.tensor([1.0, 1.0, 1.0, 9.0]), 2), sure_rows(torch.tensor([8.0, 9.0, 9.0, 1.0]), 2)
    (1, 1)
    """
    seen = losses[losses.isfinite()]
    above = len(losses) - len(seen) + (int((seen > seen.mean()).sum()) if len(seen) else 0)
    return min(above, count - max(1, round(SAMPLED * count)))
