"""The readout slot: how the network answers."""

from typing import ClassVar

from torch import Tensor

from esacl.nets.network import Network
from esacl.part import Part
from esacl.streams.base import Examples, Task
from esacl.types import Params


class Readout(Part):
    """The network's own head; other readouts are fitted at the end of a task."""

    answers_unseen: ClassVar[bool] = True  # whether a class can be answered before its task was trained

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Fit on what may be seen at the end of a task: its own examples and the remembered ones."""

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """One score per class; `task` is given only to methods that need to know it."""
        return net(x, task).logits

    def folded(self, state: Params) -> Params:
        """The model's state with a head that gives the same answers: what is saved for use without this library."""
        return state
