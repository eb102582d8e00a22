"""The constraint slot: what a step may not change.

Displacements are constrained, not gradients: momentum and weight decay move weights whose gradient is zero.
"""

from collections.abc import Collection
from typing import ClassVar

from torch import Tensor

from esacl.nets.network import Network
from esacl.part import Part
from esacl.streams.base import Task
from esacl.types import Params


class StepConstraint(Part):
    """Constrains nothing; subclasses name the parameters they watch and mend their step."""

    reads_layers: ClassVar[bool] = False  # whether it watches what every layer of the whole network reads

    @property
    def views_weights(self) -> bool:
        """Whether `view` differs from the identity; then it answers only when told the task."""
        return False

    def view(self, params: Params, task: int | None) -> Params:
        """Effective parameters of a task, from those that the sparsity strategy shows."""
        return params

    def task_state(self) -> Params:
        """What the saved weights need beside them to answer for every task."""
        return {}

    def constrained(self) -> Collection[str]:
        """Names of the parameters whose step is constrained now; only these are remembered before a step."""
        return ()

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """The value a parameter may take, given its values before and after the step."""
        return after

    def end_task(self, net: Network, task: Task) -> None:
        """A task has ended."""
