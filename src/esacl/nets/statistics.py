"""BatchNorm after pruning: its running statistics belong to weights that are gone, so they are taken anew."""

from collections.abc import Iterable

import torch
from torch import Tensor

from esacl.nets.layers import NORMS
from esacl.nets.network import Network


def recalibrate(net: Network, batches: Iterable[Tensor]) -> None:
    """Replace the running statistics of BatchNorm by the mean of those of `batches`; charged to training.

    Layers that stay in evaluation mode while others train keep theirs.
    """
    modes = [(module, module.training) for module in net.model.modules()]
    net.train_mode()
    norms = [module for module, _ in modes if isinstance(module, NORMS) and module.training]
    momenta = [norm.momentum for norm in norms]
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over all batches
        with torch.no_grad():
            for batch in batches if norms else ():
                net(batch)
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
        for module, training in modes:
            module.training = training
