"""Naïve twins of the 1×1 convolution of every `stride`-th pixel: loops, and a network with strided convolutions."""

from copy import deepcopy

import numpy as np
from numpy.typing import NDArray
from torch import nn

from esacl.nets.layers import Pointwise

Array = NDArray[np.float64]


def pointwise(x: Array, weight: Array, stride: int) -> Array:
    """Images [N, C, H, W] and weights [O, C]: [N, O, ⌈H / stride⌉, ⌈W / stride⌉]."""
    images, _, height, width = x.shape
    rows, columns = range(0, height, stride), range(0, width, stride)
    out = np.zeros((images, len(weight), len(rows), len(columns)))
    for n in range(images):
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                for o, kernel in enumerate(weight):
                    out[n, o, i, j] = kernel @ x[n, :, row, column]
    return out


def gradients(x: Array, weight: Array, stride: int, above: Array) -> tuple[Array, Array]:
    """Gradients of images and weights where that of the result is `above`."""
    of_x, of_weight = np.zeros_like(x), np.zeros_like(weight)
    for n, o, i, j in np.ndindex(*above.shape):
        of_x[n, :, stride * i, stride * j] += above[n, o, i, j] * weight[o]
        of_weight[o] += above[n, o, i, j] * x[n, :, stride * i, stride * j]
    return of_x, of_weight


def with_strided_shortcuts(model: nn.Module) -> nn.Module:
    """A copy whose shortcuts are torch's own strided convolutions, with the same weights."""
    twin = deepcopy(model)
    for block in twin.modules():
        for name, layer in block.named_children():
            if isinstance(layer, Pointwise):
                plain = nn.Conv2d(layer.in_channels, layer.out_channels, 1, layer.stride, bias=False)
                plain.weight = layer.weight
                setattr(block, name, plain)
    return twin
