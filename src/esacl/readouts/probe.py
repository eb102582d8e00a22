"""A linear probe: a head fitted on frozen features when a task has ended, every class with the same weight."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from esacl.nets.network import Network
from esacl.options import option
from esacl.readouts.base import LinearReadout
from esacl.readouts.examples import earlier, together
from esacl.readouts.logistic import fit_logistic
from esacl.streams.base import Examples, Task
from esacl.types import State


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Settings of the probe. Deviation: the exact minimum by L-BFGS, where the authors sample and step by SGD."""

    decay: float = option(0.001, "λ in mean loss + λ/2 · ‖W‖²", low=0, high=1_000_000)
    iterations: int = option(200, "steps of L-BFGS at most", low=1, high=100_000)


class LinearProbe(LinearReadout):
    """Logistic regression on all features of the task and of the remembered examples of earlier ones (CO2L's).

    Every class weighs the same, as if sampled so; classes not seen yet are out of the question.
    """

    Options: ClassVar[type[Any]] = ProbeOptions

    def attach(self, net: Network) -> None:
        """Meet the network; what earlier versions saved is in its head."""
        super().attach(net)
        self._head = {name: net.stored[f"head.{name}"] for name in ("weight", "bias")}

    def gather(self, task: Task, remembered: Examples | None) -> Examples:
        """The whole task, and what is remembered of earlier ones."""
        return together(task.train, earlier(task, remembered))

    def solve(self, features: Tensor, places: Tensor, classes: int) -> tuple[Tensor, Tensor, int]:
        """The minimum of a convex loss."""
        return fit_logistic(features, places, self.options.decay, self.options.iterations)

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before, or from the head of a version that wrote the probe there."""
        super().load_state_dict(state or {name: value.detach() for name, value in self._head.items()})
