"""Brightness, contrast and saturation by factors from 0.6 to 1.4, in this order."""

import torch
from torch import Tensor

from esacl.streams.augment.draw import as_bytes, uniform

RANGE = 0.4
_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue in grey


def apply(images: Tensor, key: int, index: Tensor, fill: Tensor) -> Tensor:
    """Each image by its own three factors."""
    values = images.float()
    for number, change in enumerate((brightness, contrast, saturation)):
        values = change(values, uniform(key, index, number, 1 - RANGE, 1 + RANGE))
    return as_bytes(values)


def brightness(values: Tensor, factors: Tensor) -> Tensor:
    """Towards black, or away from it."""
    return _blended(values, torch.zeros_like(values[:, :1]), factors)


def contrast(values: Tensor, factors: Tensor) -> Tensor:
    """Towards the mean grey of the image, or away from it."""
    return _blended(values, grey(values).mean((2, 3), keepdim=True), factors)


def saturation(values: Tensor, factors: Tensor) -> Tensor:
    """Towards the grey of each pixel, or away from it; a grey image stays as it is."""
    return _blended(values, grey(values), factors)


def grey(values: Tensor) -> Tensor:
    """[B, 1, H, W]."""
    if values.shape[1] != 3:
        return values.mean(1, keepdim=True)
    return sum(weight * values[:, channel : channel + 1] for channel, weight in enumerate(_WEIGHTS))  # type: ignore[return-value]


def _blended(values: Tensor, towards: Tensor, factors: Tensor) -> Tensor:
    return (towards + factors.float().view(-1, 1, 1, 1) * (values - towards)).clamp(0, 255)
