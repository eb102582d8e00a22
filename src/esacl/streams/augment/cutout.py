"""A square of half the side is covered, anywhere on the image, with the mean colour (DeVries and Taylor, 2017)."""

import torch
from torch import Tensor

from esacl.rng import derive, keyed_integers


def apply(images: Tensor, key: int, index: Tensor, fill: Tensor) -> Tensor:
    """Each image with its own square, which may reach over the border."""
    height, width = images.shape[-2:]
    half = min(height, width) // 4
    row = keyed_integers(derive(key, "row"), index, height)[:, None]
    column = keyed_integers(derive(key, "column"), index, width)[:, None]
    rows, columns = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    down = (rows >= row - half) & (rows < row + half)
    across = (columns >= column - half) & (columns < column + half)
    covered = (down[:, :, None] & across[:, None, :]).unsqueeze(1)
    return torch.where(covered, fill.to(images).view(1, -1, 1, 1), images)
