"""A part of the image, enlarged to its size: a fifth of the area or more, of proportions from 3:4 to 4:3."""

from math import log

from torch import Tensor

from esacl.streams.augment.draw import maps_of, uniform, warped

LEAST = 0.2
"""Share of the area. Deviation: Inception crops go down to 0.08, which is a few pixels of a small image."""


def apply(images: Tensor, key: int, index: Tensor, fill: Tensor) -> Tensor:
    """Each image's own crop, bilinear."""
    height, width = images.shape[-2:]
    area = uniform(key, index, 0, LEAST, 1.0)
    proportion = uniform(key, index, 1, log(3 / 4), log(4 / 3)).exp()
    across, down = (area * proportion).sqrt().clamp(max=1.0), (area / proportion).sqrt().clamp(max=1.0)
    maps = maps_of(len(images), images.device)
    maps[:, 0, 0], maps[:, 1, 1] = across, down
    maps[:, 0, 2] = (uniform(key, index, 2) - 0.5) * (1 - across) * width
    maps[:, 1, 2] = (uniform(key, index, 3) - 0.5) * (1 - down) * height
    return warped(images, maps, None)
