"""Naïve twin of gradient projection memory: every input of a layer is a column of one matrix, which is decomposed."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import relu

from esacl.nets import Network

Matrix = NDArray[np.float64]


def columns(layer: nn.Conv2d | nn.Linear, x: Tensor) -> Matrix:
    """What the layer multiplies its weights with, one column for each example and position."""
    given = x.detach().double().numpy()
    if isinstance(layer, nn.Linear):
        return given.T
    (down, right), (up, left) = layer.kernel_size, layer.padding
    padded = np.pad(given, ((0, 0), (0, 0), (up, up), (left, left)))  # type: ignore[arg-type]
    found = []
    for image in padded:
        for y in range(0, image.shape[1] - layer.dilation[0] * (down - 1), layer.stride[0]):
            for z in range(0, image.shape[2] - layer.dilation[1] * (right - 1), layer.stride[1]):
                rows = [y + layer.dilation[0] * k for k in range(down)]
                found.append(image[:, rows][:, :, [z + layer.dilation[1] * k for k in range(right)]].flatten())
    return np.stack(found, axis=1)


@torch.no_grad()
def layer_inputs(net: Network, x: Tensor) -> dict[str, Matrix]:
    """Inputs of every layer of a small MLP or CNN in evaluation mode, by the name of its weight."""
    body, head = net.model.backbone, net.model.head
    assert isinstance(body, nn.Module)
    assert isinstance(head, nn.Linear)
    read: dict[str, Matrix] = {}
    if isinstance(first := getattr(body, "first", None), nn.Linear):
        second = body.second
        assert isinstance(second, nn.Linear)
        read["backbone.first.weight"] = columns(first, x.flatten(1))
        hidden = relu(first(x.flatten(1)))
        read["backbone.second.weight"] = columns(second, hidden)
        features = relu(second(hidden))
    else:
        assert isinstance(body.layers, nn.Sequential)
        for place, layer in enumerate(body.layers):
            if isinstance(layer, nn.Conv2d):
                read[f"backbone.layers.{place}.weight"] = columns(layer, x)
            was, layer.training = layer.training, False
            x = layer(x.clone())
            layer.training = was
        features = x.mean((2, 3))
    read["head.weight"] = columns(head, features)
    return read


def extend(basis: Matrix, matrix: Matrix, share: float) -> Matrix:
    """The basis and as many left singular vectors of what it leaves of the matrix as the share needs."""
    total = float((matrix**2).sum())
    held = float(((basis.T @ matrix) ** 2).sum())
    vectors, values, _ = np.linalg.svd(matrix - basis @ (basis.T @ matrix), full_matrices=False)
    taken = []
    for vector, value in zip(vectors.T, values):
        if held >= share * total:
            break
        taken.append(vector)
        held += float(value) ** 2
    return np.stack([*basis.T, *taken], axis=1) if taken else basis


def discarded(matrix: Matrix, directions: int) -> float:
    """Squared norm of what the leading directions of a matrix leave of it."""
    return float((np.linalg.svd(matrix, compute_uv=False)[directions:] ** 2).sum())
