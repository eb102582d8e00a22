"""Features of stored images: what readouts are fitted on and exemplars are chosen by."""

import torch
from torch import Tensor

from esacl.nets.layers import NORMS
from esacl.nets.network import Network
from esacl.streams.rows import Rows, portions
from esacl.types import Context, Outputs

CHUNK = 256  # examples of which features are taken at once


def features_of(net: Network, context: Context, images: Rows) -> Tensor:
    """Features of stored images as they are, in evaluation mode."""
    return torch.cat([outputs.features for outputs in _answers(net, context, images)])


def logits_of(net: Network, context: Context, images: Rows) -> Tensor:
    """What the network's head answers to them."""
    return torch.cat([outputs.logits for outputs in _answers(net, context, images)])


def _answers(net: Network, context: Context, images: Rows) -> list[Outputs]:
    with net.inference():
        return [net(context.inputs.plain(part.to(context.device))) for part in portions(images, CHUNK)]


def features_move(net: Network) -> bool:
    """Whether training changes the features of an image: by weights outside the head, or by BatchNorm's statistics."""
    head = {*net.partition.head}
    learns = any(value.requires_grad for name, value in net.stored.items() if name not in head)
    return learns or (_moves_statistics(net) and not net.frozen_statistics)


def _moves_statistics(net: Network) -> bool:
    """Whether training moves running statistics of BatchNorm: those of layers that are not frozen."""
    still = {module for name in net.held for module in net.model.get_submodule(name).modules()}
    norms = (module for module in net.model.modules() if isinstance(module, NORMS))
    return any(norm.track_running_stats and norm not in still for norm in norms)
