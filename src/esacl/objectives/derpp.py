"""Dark experience replay (DER++; Buzzega et al. 2020): rehearse labels, and the logits of the time of storing."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from esacl.nets.network import Network
from esacl.objectives.er import Er, ErOptions
from esacl.options import option
from esacl.types import Batch, Outputs


@dataclass(frozen=True, slots=True)
class DerppOptions(ErOptions):
    """Settings of DER++. α and β are the authors' for CIFAR-100 and Tiny-ImageNet (CIFAR-10: α 0.2)."""

    alpha: float = option(0.1, "weight of the distance to the stored logits", low=0)
    beta: float = option(0.5, "weight of the cross-entropy on stored labels", low=0)


class Derpp(Er):
    """CE + α · MSE(logits now, stored logits) on one replayed batch + β · CE on another."""

    Options = DerppOptions
    keep_logits = True

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch) -> Tensor | None:
        """Both replay terms, from the second task on; the two batches share one call of the network."""
        if self.task == 0:
            return None
        dark, labelled = self.draw(), self.draw()
        logits = net(torch.cat([dark.x, labelled.x])).logits
        assert dark.logits is not None
        distance = mse_loss(logits[: len(dark.y)], dark.logits)
        rehearsal = cross_entropy(logits[len(dark.y) :], labelled.y)
        combined: Tensor = self.options.alpha * distance + self.options.beta * rehearsal
        return combined
