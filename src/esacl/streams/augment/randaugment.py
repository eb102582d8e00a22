"""Two operations drawn for each image, each as strong as chance has it (after RandAugment, Cubuk et al., 2020).

Deviation: strengths are uniform up to the largest, not one for all; equalise, autocontrast and sharpness are left out.
"""

from collections.abc import Callable
from math import radians

import torch
from torch import Tensor

from esacl.rng import derive, keyed_integers
from esacl.streams.augment import jitter
from esacl.streams.augment.draw import as_bytes, maps_of, uniform, warped

TIMES = 2
TURN, SHEAR, MOVE, CHANGE = radians(30), 0.3, 0.2, 0.8
"""Largest angle, shear, shift as a share of the side, and change of a factor of colour."""

Change = Callable[[Tensor, Tensor, Tensor], Tensor]  # (bytes, strength of each in [-1, 1), fill) → bytes


def apply(images: Tensor, key: int, index: Tensor, fill: Tensor) -> Tensor:
    """Each image by its own operations."""
    out = images.clone()
    for turn in range(TIMES):
        own = derive(key, turn)
        which, strength = keyed_integers(own, index, len(CHANGES)), uniform(own, index, 0, -1.0, 1.0)
        for number, change in enumerate(CHANGES):
            rows = (which == number).nonzero().squeeze(1)
            if len(rows):
                out[rows] = change(out[rows], strength[rows], fill)
    return out


def rotate(images: Tensor, strength: Tensor, fill: Tensor) -> Tensor:
    """Turned about the centre."""
    angle = TURN * strength
    maps = maps_of(len(images), images.device)
    maps[:, 0, 0] = maps[:, 1, 1] = angle.cos()
    maps[:, 0, 1], maps[:, 1, 0] = angle.sin(), -angle.sin()
    return warped(images, maps, fill)


def _linear(row: int, column: int, most: float) -> Change:
    """One entry of the map: a shear, or a shift by a share of the side."""

    def change(images: Tensor, strength: Tensor, fill: Tensor) -> Tensor:
        side = images.shape[-1 - row] if column == 2 else 1
        maps = maps_of(len(images), images.device)
        maps[:, row, column] = most * side * strength
        return warped(images, maps, fill)

    return change


def _colour(change: Callable[[Tensor, Tensor], Tensor]) -> Change:
    """A factor of colour, from 0.2 to 1.8."""
    return lambda images, strength, fill: as_bytes(change(images.float(), 1 + CHANGE * strength))


def posterise(images: Tensor, strength: Tensor, fill: Tensor) -> Tensor:
    """Only the highest 4 to 8 bits."""
    lowest = 2 ** (4 * strength.abs()).round().long()
    return (images // lowest.view(-1, 1, 1, 1) * lowest.view(-1, 1, 1, 1)).to(torch.uint8)


def solarise(images: Tensor, strength: Tensor, fill: Tensor) -> Tensor:
    """Bytes above a threshold are inverted."""
    threshold = (256 * (1 - strength.abs())).long().view(-1, 1, 1, 1)
    return torch.where(images >= threshold, 255 - images, images)


def same(images: Tensor, strength: Tensor, fill: Tensor) -> Tensor:
    """As it is."""
    return images


CHANGES: tuple[Change, ...] = (
    same,
    rotate,
    _linear(0, 1, SHEAR),
    _linear(1, 0, SHEAR),
    _linear(0, 2, MOVE),
    _linear(1, 2, MOVE),
    _colour(jitter.brightness),
    _colour(jitter.contrast),
    _colour(jitter.saturation),
    posterise,
    solarise,
)
