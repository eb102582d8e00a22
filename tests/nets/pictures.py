"""Images, labels and masks for networks under test."""

import torch
from torch import Tensor

from esacl.nets import network as module
from esacl.rng import generator
from esacl.types import Params

BACKBONES = ["mlp", "cnn", "resnet10"]
TELLING = [*BACKBONES, "resnet18"]


def images(count: int = 6, name: str = "images") -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=generator(0, name))


def labels(count: int = 6) -> Tensor:
    return torch.arange(count) % 6


def masks(params: Params) -> Params:
    """A random half of every weight matrix, kept in the parameter's own layout."""
    draw = generator(0, "masks")
    kept = {name: torch.rand(p.shape, generator=draw) < 0.5 for name, p in params.items() if p.ndim > 1}
    return {name: mask.float() for name, mask in kept.items()}


def masked(net: module.Network) -> module.Network:
    """The network seen through a mask."""
    keep = masks(net.stored)
    net.view = lambda params, task: {name: p * keep[name] if name in keep else p for name, p in params.items()}
    return net
