"""Experience replay (ER; Chaudhry et al. 2019): rehearse a few stored examples in every step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.nets.network import Network
from esacl.objectives.base import Objective
from esacl.objectives.memory import Reservoir, StoragePlan
from esacl.options import option
from esacl.problem import Problem
from esacl.streams.base import Examples
from esacl.types import Batch, Columns, Context, Outputs, Replay, State, Trace


@dataclass(frozen=True, slots=True)
class ErOptions:
    """Settings of ER. The paper's buffer is 500 examples; a replayed batch is as large as the current one."""

    buffer: int = option(500, "examples kept for replay", low=1, high=10_000_000)
    replay_batch: int | None = option(None, "replayed examples a step (default: the batch size)", low=1, high=100_000)
    batch: Literal["joint", "apart"] = option(
        "joint", "current and replayed examples in one forward pass, which BatchNorm normalises as one batch, or in two"
    )
    replay: Literal["batch", "branch", "none"] = option(
        "batch",
        "what a step rehearses: a batch from the memory; branch: the same, through trunk and own branch of a network "
        "that grows; none: nothing, and the memory serves the readout alone",
    )


class Er(Objective):
    """Cross-entropy on the current batch + cross-entropy on a replayed batch."""

    Options = ErOptions
    keep_logits = False

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """A branch learns that old classes are none of its own."""
        return "seen" if options["replay"] == "branch" else None

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """Replay in a branch of a network that has none, or of logits that other branches gave."""
        if options["objective"]["replay"] != "branch" or ("trunk" in options["sparsity"] and not cls.keep_logits):
            return None
        lacks = "only a network that grows has branches" if not cls.keep_logits else "it distils logits of others"
        return Problem(
            "{given} rehearses in the branch of the task, but {why}.",
            "objective.replay",
            "branch",
            remedy="Use {objective.replay:batch}, or method grow-er.",
            why=lacks,
        )

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.memory = Reservoir(options.buffer, context, self.keep_logits)
        self._plan: StoragePlan | None = None  # what of the present batch will be stored, where that is known already

    def draw(self) -> Replay:
        """One replayed batch."""
        return self.memory.draw(self.options.replay_batch or self.context.batch_size)

    def rehearse(self) -> Replay | None:
        """A replayed batch, from the second task on."""
        if self.task == 0 or self.options.replay == "none":
            return None
        return replace(self.draw(), apart=self.options.batch == "apart")

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """Cross-entropy on what is replayed."""
        if replay is None or replay.outputs is None:
            return None
        return cross_entropy(self.competing(replay.outputs.logits, replay.y), replay.y)

    def rows_to_store(self, batch: Batch) -> Tensor | None:
        """What will be stored with its logits."""
        if not self.keep_logits:
            return None
        self._plan = self._plan or self.memory.plan(len(batch))  # once, however often the batch is glanced at
        return self._plan.rows

    def memory_batch(self, count: int) -> tuple[Tensor, Tensor] | None:
        """Remembered examples, from the second task on."""
        if self.task == 0:
            return None
        replay = self.memory.draw(count, "watch")
        return replay.x, replay.y

    def buffer_examples(self) -> Examples | None:
        """What the memory holds."""
        return self.memory.examples() if len(self.memory) else None

    def after_step(self, net: Network, trace: Trace) -> None:
        """Offer the whole batch, so that the memory stays a fair sample whatever data selection trains on."""
        batch, plan = trace.batch, self._plan or self.memory.plan(len(trace.batch))
        self._plan = None
        self.memory.store(plan, batch.raw, batch.y, trace.logits(plan.rows) if self.keep_logits else None)

    def state_dict(self) -> State:
        """The memory, besides what every objective has."""
        return {**super().state_dict(), "memory": self.memory.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        super().load_state_dict(state)
        self.memory.load_state_dict(state["memory"])
