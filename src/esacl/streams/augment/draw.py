"""Numbers that belong to an example, and images looked at through a linear map."""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from esacl.rng import derive, keyed_integers


def uniform(key: int, index: Tensor, number: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    """For each example its `number`-th value in [low, high), by (key, its index) only."""
    return low + (high - low) * keyed_integers(derive(key, number), index, 1 << 31).double() / 2**31


def warped(images: Tensor, maps: Tensor, fill: Tensor | None) -> Tensor:
    """Bytes [B, C, H, W], read at A (x, y) + b for a pixel (x, y) from the centre: bilinear.

    `maps` are [B, 2, 3], the columns of A and b in pixels. Outside is `fill` by channel, or the nearest pixel.
    """
    height, width = images.shape[-2:]
    theta = maps.clone()
    theta[:, 0, 1] *= height / width
    theta[:, 1, 0] *= width / height
    theta[:, 0, 2] *= 2 / width
    theta[:, 1, 2] *= 2 / height
    grid = affine_grid(theta.float(), list(images.shape), align_corners=False)
    base = 0.0 if fill is None else fill.to(images.device, torch.float32).view(1, -1, 1, 1)
    mode = "border" if fill is None else "zeros"
    read = grid_sample(images.float() - base, grid, mode="bilinear", padding_mode=mode, align_corners=False)
    return as_bytes(read + base)


def as_bytes(values: Tensor) -> Tensor:
    """Rounded into 0 to 255."""
    return values.round().clamp(0, 255).to(torch.uint8)


def maps_of(count: int, device: torch.device) -> Tensor:
    """Linear maps that change nothing: [count, 2, 3]."""
    return torch.eye(2, 3, dtype=torch.float64, device=device).repeat(count, 1, 1)
