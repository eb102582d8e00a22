"""A composition: one part for each slot of the step."""

from dataclasses import dataclass

from esacl.code import told
from esacl.config import SLOTS
from esacl.errors import CheckpointError
from esacl.nets.network import Network
from esacl.objectives.base import Objective
from esacl.objectives.readout import Readout
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.optim.update import UpdateRule
from esacl.part import Part
from esacl.selection.base import DataSelector
from esacl.sparsity.base import SparsityStrategy
from esacl.types import State


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
        for part in self.all():
            part.attach(net)
        extra = {slot: part.extra_parameters() for slot, part in zip(SLOTS, self.all())}
        net.extra = {f"{slot}.{name}": value for slot, own in extra.items() for name, value in own.items()}

    def all(self) -> list[Part]:
        """Every part, in the order of the slots."""
        return [getattr(self, slot) for slot in SLOTS]

    def state_dict(self) -> State:
        """The state of every part."""
        return {slot: part.state_dict() for slot, part in zip(SLOTS, self.all())}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        for slot, part in zip(SLOTS, self.all()):
            try:
                part.load_state_dict(state[slot])
            except Exception as error:
                if type(part).__module__.startswith("esacl."):
                    raise
                raise CheckpointError(
                    f"{type(part).__name__} ({type(part).__module__}), the {slot}, cannot go on from the state that it "
                    f"saved: {told(error)}. Its load_state_dict must take what its state_dict returns; "
                    f"esacl.testing.check_method finds such faults."
                ) from None
