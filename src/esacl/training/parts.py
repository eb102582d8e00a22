"""A composition: one part for each slot of the step."""

from dataclasses import dataclass, fields

from esacl.nets.network import Network
from esacl.objectives.base import Objective
from esacl.objectives.readout import Readout
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.optim.update import UpdateRule
from esacl.selection.base import DataSelector
from esacl.sparsity.base import SparsityStrategy
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
    readout: Readout

    def attach(self, net: Network) -> None:
        """Meet the network: the view is set here, or left out where it is the identity."""
        net.view = self.sparsity.view if self.sparsity.views_weights else None
        self.sparsity.attach(net)

    def extra_parameters(self) -> Params:
        """Trainable parameters that are not the network's."""
        return {**self.objective.extra_parameters(), **self.sparsity.extra_parameters()}

    def state_dict(self) -> State:
        """The state of every part."""
        return {slot.name: getattr(self, slot.name).state_dict() for slot in fields(self)}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        for slot in fields(self):
            getattr(self, slot.name).load_state_dict(state[slot.name])
