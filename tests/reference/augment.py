"""Naïve twin of the batched crop and flip: one example at a time, one pixel at a time."""

import torch
from torch import Tensor

_WORD = (1 << 64) - 1


def keyed_integer(key: int, index: int, below: int) -> int:
    """SplitMix64 of (key, index), in Python's unbounded integers."""
    z = ((index + 1) * 0x9E3779B97F4A7C15 + key) & _WORD
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _WORD
    z ^= z >> 31
    return (z >> 33) * below >> 31


def crop_and_flip(raw: Tensor, key: int, index: Tensor, padding: int, flip: bool) -> Tensor:
    """Shift each image by up to `padding` pixels (zeros come in), then mirror half of them."""
    result = torch.zeros_like(raw)
    height, width = raw.shape[-2:]
    for k, number in enumerate(index.tolist()):
        top = keyed_integer(key, 3 * number, 2 * padding + 1) - padding
        left = keyed_integer(key, 3 * number + 1, 2 * padding + 1) - padding
        mirrored = flip and keyed_integer(key, 3 * number + 2, 2) == 1
        for row in range(height):
            for column in range(width):
                source_row, source_column = row + top, (width - 1 - column if mirrored else column) + left
                if 0 <= source_row < height and 0 <= source_column < width:
                    result[k, :, row, column] = raw[k, :, source_row, source_column]
    return result
