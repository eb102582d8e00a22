"""Refit: the head fitted anew, from zero, on equally many features of every class."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from esacl.options import option
from esacl.readouts.base import LinearReadout
from esacl.readouts.examples import SampleOptions, balanced
from esacl.readouts.logistic import fit_logistic
from esacl.streams.base import Examples, Task


@dataclass(frozen=True, slots=True)
class RefitOptions(SampleOptions):
    """Settings of refitting; the features are scaled to a mean square of 1, so that λ suits any network."""

    decay: float = option(0.01, "λ in mean loss + λ/2 · ‖W‖²", low=0, high=1_000_000)
    iterations: int = option(200, "steps of L-BFGS at most", low=1, high=100_000)


class Refit(LinearReadout):
    """Logistic regression on features of the memory and of a balanced sample of the task, from zero."""

    Options: ClassVar[type[Any]] = RefitOptions

    def gather(self, task: Task, remembered: Examples | None) -> Examples:
        """As many images of each class of the task as the memory holds of an earlier one."""
        return balanced(self.context, task, remembered, self.options.sample)

    def solve(self, features: Tensor, places: Tensor, classes: int) -> tuple[Tensor, Tensor, int]:
        """The minimum of a convex loss."""
        size = features.square().mean().sqrt().clamp(min=1e-12)
        weight, bias, macs = fit_logistic(features / size, places, self.options.decay, self.options.iterations)
        return weight / size, bias, macs
