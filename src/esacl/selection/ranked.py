"""Data selection by loss: the support set of the ascent (SSE), the update set of the descent (ERE), and a control."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.options import option
from esacl.ranking import largest
from esacl.rng import generator
from esacl.selection.base import DataSelector
from esacl.types import Batch, Context, State, Trace


@dataclass(frozen=True, slots=True)
class RankedOptions:
    """Settings of data selection."""

    keep: float = option(1.0, "share of each batch that is learnt from", low=0.01, high=1)
    rule: Literal["random", "loss"] = option("random", "which: at random, or those with the largest losses (SSE, ERE)")
    ranking: Literal["pass", "reuse", "stale"] = option(
        "stale", "losses by an extra pass, by the ascent's own pass over the whole batch, or those last seen"
    )
    support: bool = option(True, "select for the ascent (SSE)")
    redundant: bool = option(True, "select for the descent: leave out what is redundant (ERE)")
    warmup: int = option(0, "epochs of each task before selection starts", low=0)


class Ranked(DataSelector):
    """The `keep` largest losses of a batch: Eq. 17 (SSE) for the ascent, Eq. 21 (ERE) for the descent.

    With stale losses an example that was never seen ranks first. The random rule is the control at equal cost.
    """

    Options: ClassVar[type[Any]] = RankedOptions

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.step = 0
        self.epoch = 0
        self.task = -1
        self.losses = torch.empty(0)  # of each example of the task when it was last seen

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> str | None:
        """A share to keep, and nothing to keep it from."""
        own, ascends = options["selection"], options.get("gradient", {}).get("rho", 0) > 0
        if own["keep"] == 1 or own["redundant"] or (own["support"] and ascends):
            return None
        return (
            f"selection.keep = {own['keep']!r} selects nothing: selection.redundant is false and there is "
            f"{'no selection for the ascent either' if ascends else 'no ascent'}. "
            f"Leave --keep out, set selection.redundant = true, or ascend with --rho and selection.support = true."
        )

    @property
    def active(self) -> bool:
        """Whether it leaves anything out now."""
        wished = self.options.keep < 1 and (self.options.support or self.options.redundant)
        return bool(wished) and self.epoch >= self.options.warmup

    @property
    def ranking(self) -> str:
        """Fresh losses are needed only while it selects by them."""
        fresh = self.active and self.options.rule == "loss" and self.options.ranking != "stale"
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

    def _choose(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        if not self.active:
            return None
        count = max(1, round(self.options.keep * len(batch)))
        if self.options.rule == "random":
            draw = generator(self.context.seed, "selection", self.task, self.step)  # the same in ascent and descent
            rank = torch.rand(len(batch), generator=draw)
        elif fit is None:
            rank = self.losses[batch.index.cpu()]
        else:
            rank = fit
        return largest(rank, count).nonzero().squeeze(1).to(batch.y.device)

    def begin_task(self, examples: int) -> None:
        """Nothing of the new task was seen."""
        self.task += 1
        self.step = self.epoch = 0
        self.losses = torch.full((examples,), inf)

    def observe(self, trace: Trace) -> None:
        """Remember the losses."""
        self.step += 1
        if self.options.rule == "loss" and self.options.keep < 1:
            index = trace.batch.index if trace.rows is None else trace.batch.index[trace.rows]
            self.losses[index.cpu()] = trace.fit.cpu()

    def state_dict(self) -> State:
        """Losses seen so far, and where it stands."""
        return {"step": self.step, "epoch": self.epoch, "task": self.task, "losses": self.losses.clone()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.step, self.epoch, self.task = state["step"], state["epoch"], state["task"]
        self.losses = state["losses"].clone().cpu()
