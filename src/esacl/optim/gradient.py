"""The gradient slot: from a batch to the gradients of a step, with θ unchanged on return."""

from typing import ClassVar, Protocol

from torch import Tensor

from esacl.nets.network import Network
from esacl.part import Part
from esacl.types import Batch, Outputs, Trace


class Losses(Protocol):
    """What a gradient rule needs of an objective."""

    def fit_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Loss of each example."""
        ...

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch) -> Tensor | None:
        """Retention term, if any."""
        ...


class Selection(Protocol):
    """What a gradient rule needs of a data selector."""

    def support_set(self, fit: Tensor) -> Tensor | None:
        """Rows for the ascent; None for all."""
        ...

    def update_set(self, fit: Tensor) -> Tensor | None:
        """Rows for the descent; None for all."""
        ...


class GradientRule(Part):
    """The plain gradient of fit + retention."""

    ascends: ClassVar[bool] = False  # whether it has an ascent step, which a support set needs

    def fill(self, net: Network, objective: Losses, batch: Batch, selector: Selection) -> Trace:
        """Leave the gradient of this step in the parameters."""
        outputs = net(batch.inputs)
        fit = objective.fit_loss(outputs, batch)
        rows = selector.update_set(fit.detach())
        chosen = fit if rows is None else fit[rows]
        loss = chosen.mean()
        retained = objective.retain_loss(net, outputs, batch)
        if retained is not None:
            loss = loss + retained
        net.backward(loss)
        seen = Outputs(outputs.features.detach(), outputs.logits.detach())
        return Trace(batch, seen, fit.detach(), loss.detach(), len(chosen))
