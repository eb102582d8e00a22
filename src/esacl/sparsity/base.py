"""The sparsity slot: what a stored weight means, which weights may move, and a task's phases."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from esacl.nets.network import Network
from esacl.nets.statistics import recalibrate
from esacl.options import option
from esacl.part import Part
from esacl.rng import generator
from esacl.streams.base import Examples, Task
from esacl.streams.rows import Rows, joined
from esacl.types import Outputs, Params


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of training within a task."""

    name: str
    epochs: int


@dataclass(frozen=True, slots=True)
class DenseOptions:
    """Settings that every strategy has."""

    recalibrate: Literal["no", "mixed", "memory"] = option(
        "no", "BatchNorm statistics anew after a task: from its images and the memory, or from the memory alone"
    )


class SparsityStrategy(Part):
    """Dense: the identity view, no constraint, one phase. Subclasses override what they need."""

    Options: ClassVar[type[Any]] = DenseOptions
    prunes: ClassVar[bool] = False  # whether `end_task` sets weights to zero
    views_weights: ClassVar[bool] = False  # whether `view` differs from the identity
    runs_parts: ClassVar[bool] = False  # whether `run` calls parts of the network instead of the whole
    holds_classes: ClassVar[bool] = False  # whether the head's rows of a class never move again after its task
    needs_task_id: ClassVar[bool] = False  # whether it can answer only when told the task
    needs_validation: ClassVar[bool] = False  # whether it watches validation examples while it trains
    observes_gradients: ClassVar[bool] = False  # whether `observe_gradients` wants to be called
    stores_masks: ClassVar[bool] = False  # whether it keeps a mask for every task
    dense_gradients: ClassVar[bool] = False  # whether it learns from the gradients of weights that are zero, too

    @classmethod
    def needs_task(cls, options: Mapping[str, Any]) -> bool:
        """With any options."""
        return cls.needs_task_id

    @property
    def target(self) -> float:
        """Sparsity asked for: share of zeros among the prunable weights."""
        return 0.0

    def view(self, params: Params, task: int | None) -> Params:
        """Effective parameters of a task from the stored ones."""
        return params

    def run(self, x: Tensor) -> Outputs:
        """Features and logits of a batch from the parts of the network that are needed; charges the meter for them."""
        raise NotImplementedError

    def frozen(self) -> Params:
        """Which coordinates of which parameters may not move, as masks: update rules choose among the others.

        Where the update rule leaves them alone by itself, nobody asks `constrain` about these parameters.
        """
        return {}

    def constrained(self) -> Collection[str]:
        """Names of the parameters whose step is constrained now."""
        return ()

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """The value a parameter may take, given its values before and after the step."""
        return after

    def planned_epochs(self) -> int:
        """Epochs of all phases of a task together, as far as can be told beforehand."""
        return self.context.epochs

    def next_phase(self, task: int, done: int) -> Phase | None:
        """The phase after `done` phases of a task; None ends the task. Asked, so that it can be resumed."""
        return Phase("fit", self.context.epochs) if done == 0 else None

    def begin_task(self, net: Network, task: Task) -> None:
        """A task starts: expand."""

    def begin_epoch(self, net: Network, epoch: int) -> None:
        """An epoch starts."""

    def observe_gradients(self, gradients: Params, memory: Callable[[], Params]) -> None:
        """See the gradients of a step before it is taken, and on demand those of remembered examples."""

    def end_phase(self, net: Network, task: Task, phase: Phase) -> None:
        """A phase has ended."""

    @property
    def removes_channels(self) -> bool:
        """Whether the network gets narrower when a task ends."""
        return False

    def surviving_channels(self, net: Network, task: Task) -> Mapping[str, Tensor]:
        """Channels of each group of units that stay when a task ends, before `end_task`; empty where all do."""
        return {}

    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """A task has ended: prune, freeze, recalibrate (before the objective consolidates this task)."""
        self.recalibrate(net, task, remembered)

    def recalibrate(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Take the statistics of BatchNorm anew, if asked for."""
        if getattr(self.options, "recalibrate", "no") != "no":
            recalibrate(net, self._recalibration_batches(task, remembered))

    def _recalibration_batches(self, task: Task, remembered: Examples | None, size: int = 256) -> Iterator[Tensor]:
        """Images to take statistics from, well mixed, in batches of about `size`."""
        if remembered is None:
            images: Rows = task.train.x
        elif self.options.recalibrate == "memory":
            images = joined([remembered.x, self._unremembered(task, remembered)])
        else:
            images = joined([task.train.x, remembered.x])
        order = torch.randperm(len(images), generator=generator(self.context.seed, "recalibrate", task.index))
        for rows in order.tensor_split(max(1, len(images) // size)):
            yield self.context.inputs.plain(images[rows].to(self.context.device))

    def _unremembered(self, task: Task, remembered: Examples) -> Tensor:
        """As many images of each class of the task as there are of others, for a memory that lacks its classes."""
        if torch.isin(remembered.y, torch.tensor(task.classes)).any():
            return remembered.x[:0]
        each = max(1, len(remembered) // len(set(remembered.y.tolist())))
        order = torch.randperm(len(task.train), generator=generator(self.context.seed, "unremembered", task.index))
        rows = [order[task.train.y[order] == column][:each] for column in task.classes]
        return task.train.x[torch.cat(rows)]

    def masks(self, net: Network) -> list[Params]:
        """Masks by prunable parameter without which nobody knows where the values belong; none for a dense network."""
        return []

    def task_state(self) -> Params:
        """What the saved weights need beside them to answer for every task: packed masks, normalisation of a task."""
        return {}

    def density(self, net: Network) -> dict[str, float]:
        """Share of non-zero effective weights, by prunable parameter."""
        effective = net.stored if net.view is None else net.view(net.stored, None)
        weights = {name: effective[name] for name in net.partition.prunable}
        return {name: weight.count_nonzero().item() / weight.numel() for name, weight in weights.items()}


class Dense(SparsityStrategy):
    """All weights, all the time."""
