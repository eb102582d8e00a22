"""A teacher: the network as it answered at the end of the last task."""

from torch import Tensor

from esacl.nets.network import Network
from esacl.types import Outputs, State


class Teacher:
    """A frozen copy of the network, from the end of the first task on; its calls are charged like all others."""

    def __init__(self, net: Network) -> None:
        self._net = net
        self._copy: Network | None = None

    def __bool__(self) -> bool:
        """Whether there is one already."""
        return self._copy is not None

    def __call__(self, x: Tensor) -> Outputs:
        """What it answers; nothing to differentiate."""
        assert self._copy is not None
        return self._copy(x)

    def take(self) -> None:
        """Learn all that the network knows now."""
        self._copy = self._net.teacher()

    def state_dict(self) -> State:
        """Its weights and statistics."""
        return {} if self._copy is None else dict(self._copy.model.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self._copy = None
        if state:
            self._copy = self._net.teacher()
            self._copy.model.load_state_dict(state)
