"""A composition: one part for each slot of the step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from esacl.code import message
from esacl.config import SLOTS
from esacl.errors import CheckpointError, ConfigError
from esacl.nets.network import Network, View
from esacl.objectives.base import Objective
from esacl.optim.average import Average
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.optim.update import UpdateRule
from esacl.part import Part
from esacl.readouts.base import Readout
from esacl.selection.base import DataSelector
from esacl.sparsity.base import SparsityStrategy
from esacl.streams.base import Task
from esacl.types import Params, State


@dataclass(frozen=True, slots=True)
class Parts:
    """What a method is made of."""

    objective: Objective
    gradient: GradientRule
    update: UpdateRule
    constraint: StepConstraint
    sparsity: SparsityStrategy
    selection: DataSelector
    average: Average
    readout: Readout

    def attach(self, net: Network) -> None:
        """Meet the network: view and route are set here, or left out where the whole module is called as it is."""
        views = [part.view for part in (self.sparsity, self.constraint) if part.views_weights]
        net.view = _in_turn(views) if len(views) > 1 else views[0] if views else None
        net.route = self.sparsity.run if self.sparsity.runs_parts else None
        for part in self.all():
            part.attach(net)
        extra = {slot: part.extra_parameters() for slot, part in zip(SLOTS, self.all())}
        net.extra = {f"{slot}.{name}": value for slot, own in extra.items() for name, value in own.items()}
        if self.sparsity.removes_channels:
            self._check_narrow()

    def _check_narrow(self) -> None:
        """Refuse parts that would not know what belongs to channels that went."""
        for part in self.all():
            if part.fixed_width or (part.extra_parameters() and type(part).narrow is Part.narrow):
                raise ConfigError(
                    "{part} has values of its own for each weight or feature, and cannot leave out those of channels "
                    "that are removed.",
                    remedy="Use {sparsity.unit:weight}.",
                    part=type(part).__name__,
                )

    def narrow(self, net: Network, kept: Mapping[str, Tensor]) -> None:
        """Remove all channels of the network but these, and what the parts have beside them."""
        places = net.narrow(kept)
        for part in self.all():
            part.narrow(places)

    @property
    def needs_task(self) -> bool:
        """Whether it can answer only when told the task."""
        return self.sparsity.needs_task_id or self.constraint.views_weights

    def task_state(self) -> Params:
        """What the saved weights need beside them to answer for every task."""
        return {**self.sparsity.task_state(), **self.constraint.task_state()}

    def begin_task(self, net: Network, task: Task) -> None:
        """A task starts: expand, then meet its examples."""
        self.sparsity.begin_task(net, task)
        self.objective.begin_task(net, task)
        self.gradient.begin_task()
        self.selection.begin_task(len(self.objective.training_set(task)))

    def all(self) -> list[Part]:
        """Every part, in the order of the slots."""
        return [getattr(self, slot) for slot in SLOTS]

    @property
    def are_own(self) -> bool:
        """Whether all of them are of this library."""
        return all(map(_is_own, self.all()))

    def state_dict(self) -> State:
        """The state of every part."""
        return {slot: part.state_dict() for slot, part in zip(SLOTS, self.all())}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        for slot, part in zip(SLOTS, self.all()):
            try:
                if slot in state or slot != "average":  # which checkpoints of before do not have
                    _check_alike(state[slot], part.state_dict(), slot)
                    part.load_state_dict(state[slot])
            except Exception as error:
                if _is_own(part):
                    raise
                raise CheckpointError(
                    f"{type(part).__name__} ({type(part).__module__}), the {slot}, cannot go on from the state that it "
                    f"saved: {message(error)}. Its load_state_dict must take what its state_dict returns; "
                    f"esacl.testing.check_method finds such faults."
                ) from None


def _is_own(part: Part) -> bool:
    return type(part).__module__.startswith("esacl.")


def _check_alike(saved: Any, fresh: Any, place: str) -> None:
    """Refuse a saved tensor of another type than the one it replaces: it would fail, or be rounded, much later."""
    if isinstance(saved, Tensor) and isinstance(fresh, Tensor):
        if (saved.dtype, saved.ndim) != (fresh.dtype, fresh.ndim):
            told = [f"{value.dtype} with {value.ndim} axes" for value in (saved, fresh)]
            raise ValueError(f"{place} is of {told[0]}, not of {told[1]}")
    elif isinstance(saved, dict) and isinstance(fresh, dict):
        for name in fresh.keys() & saved.keys():
            _check_alike(saved[name], fresh[name], f"{place}.{name}")


def _in_turn(views: Sequence[View]) -> View:
    """Each sees what the one before it shows."""

    def view(params: Params, task: int | None) -> Params:
        for each in views:
            params = each(params, task)
        return params

    return view
