"""The constraint slot: what a step may not change.

Displacements are constrained, not gradients: momentum and weight decay move weights whose gradient is zero.
"""

from collections.abc import Collection

from torch import Tensor

from esacl.nets.network import Network
from esacl.part import Part
from esacl.streams.base import Task


class StepConstraint(Part):
    """Constrains nothing; subclasses name the parameters they watch and mend their step."""

    def constrained(self) -> Collection[str]:
        """Names of the parameters whose step is constrained now; only these are remembered before a step."""
        return ()

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """The value a parameter may take, given its values before and after the step."""
        return after

    def end_task(self, net: Network, task: Task) -> None:
        """A task has ended."""
