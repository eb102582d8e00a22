"""Dark experience replay (DER++; Buzzega et al. 2020): rehearse labels, and the logits of the time of storing."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from esacl.nets.network import Network
from esacl.objectives.er import Er, ErOptions
from esacl.options import option
from esacl.types import Batch, Outputs, Replay


@dataclass(frozen=True, slots=True)
class DerppOptions(ErOptions):
    """Settings of DER++. α and β are the authors' for CIFAR-100 and Tiny-ImageNet (CIFAR-10: α 0.2)."""

    alpha: float = option(0.1, "weight of the distance to the stored logits", low=0)
    beta: float = option(0.5, "weight of the cross-entropy on stored labels", low=0)
    one_batch: bool = option(False, "both terms on one replayed batch, which is cheaper, instead of one for each")


class Derpp(Er):
    """CE + α · MSE(logits now, stored logits) on one replayed batch + β · CE on another."""

    Options = DerppOptions
    keep_logits = True

    def draw(self) -> Replay:
        """What both terms need: one batch for the two of them, or the one of the logits and then that of the labels."""
        if self.options.one_batch:
            return super().draw()
        dark, labelled = super().draw(), super().draw()
        return Replay(torch.cat([dark.x, labelled.x]), torch.cat([dark.y, labelled.y]), dark.logits)

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """Both replay terms."""
        if replay is None or replay.outputs is None:
            return None
        logits, stored = replay.outputs.logits, replay.logits
        assert stored is not None
        first = len(logits) - len(stored)  # of the labelled rows: they are the last ones, or all
        distance = mse_loss(logits[: len(stored)], stored)
        rehearsal = cross_entropy(self.competing(logits[first:], replay.y[first:]), replay.y[first:])
        combined: Tensor = self.options.alpha * distance + self.options.beta * rehearsal
        return combined
