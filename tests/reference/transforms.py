"""Naive twins of operations on images: one image, one pixel at a time, in Python's own numbers."""

from math import cos, exp, floor, log, radians, sin

import torch
from torch import Tensor

from esacl.rng import derive
from tests.reference.augment import keyed_integer

GREY = (0.299, 0.587, 0.114)


def uniform(key: int, index: int, number: int, low: float = 0.0, high: float = 1.0) -> float:
    return low + (high - low) * keyed_integer(derive(key, number), index, 1 << 31) / 2**31


def warped(image: Tensor, linear: list[list[float]], fill: Tensor | None) -> Tensor:
    """Each pixel read at its place after the map about the centre, from the four pixels around."""
    channels, height, width = image.shape
    out = torch.empty_like(image)

    def pixel(channel: int, row: int, column: int) -> float:
        if fill is None:
            return float(image[channel, min(max(row, 0), height - 1), min(max(column, 0), width - 1)])
        inside = 0 <= row < height and 0 <= column < width
        return float(image[channel, row, column]) if inside else float(fill[channel])

    for row in range(height):
        for column in range(width):
            x, y = column - (width - 1) / 2, row - (height - 1) / 2
            from_x = linear[0][0] * x + linear[0][1] * y + linear[0][2] + (width - 1) / 2
            from_y = linear[1][0] * x + linear[1][1] * y + linear[1][2] + (height - 1) / 2
            left, top = floor(from_x), floor(from_y)
            for channel in range(channels):
                value = 0.0
                for down, row_share in ((0, 1 - from_y + top), (1, from_y - top)):
                    for across, column_share in ((0, 1 - from_x + left), (1, from_x - left)):
                        value += row_share * column_share * pixel(channel, top + down, left + across)
                out[channel, row, column] = min(max(round(value), 0), 255)
    return out


def resized_crop(image: Tensor, key: int, index: int) -> Tensor:
    _, height, width = image.shape
    area, proportion = uniform(key, index, 0, 0.2, 1.0), exp(uniform(key, index, 1, log(3 / 4), log(4 / 3)))
    across, down = min((area * proportion) ** 0.5, 1.0), min((area / proportion) ** 0.5, 1.0)
    right = (uniform(key, index, 2) - 0.5) * (1 - across) * width
    below = (uniform(key, index, 3) - 0.5) * (1 - down) * height
    return warped(image, [[across, 0, right], [0, down, below]], None)


def colour(image: Tensor, kind: int, factor: float) -> Tensor:
    """0: brightness, 1: contrast, 2: saturation; of floats."""
    channels, height, width = image.shape
    weights = GREY if channels == 3 else [1 / channels] * channels
    grey = sum(weight * image[channel].double() for channel, weight in enumerate(weights))
    towards = (torch.zeros(height, width), grey.mean().expand(height, width), grey)[kind]
    return (towards + factor * (image.double() - towards)).clamp(0, 255)


def jitter(image: Tensor, key: int, index: int) -> Tensor:
    values = image.double()
    for kind in range(3):
        values = colour(values, kind, uniform(key, index, kind, 0.6, 1.4))
    return values.round().to(torch.uint8)


def cutout(image: Tensor, key: int, index: int, fill: Tensor) -> Tensor:
    out = image.clone()
    _, height, width = image.shape
    half = min(height, width) // 4
    row, column = keyed_integer(derive(key, "row"), index, height), keyed_integer(derive(key, "column"), index, width)
    for y in range(max(0, row - half), min(height, row + half)):
        for x in range(max(0, column - half), min(width, column + half)):
            out[:, y, x] = fill
    return out


def randaugment(image: Tensor, key: int, index: int, fill: Tensor) -> Tensor:
    _, height, width = image.shape
    for turn in range(2):
        own = derive(key, turn)
        which, strength = keyed_integer(own, index, 11), uniform(own, index, 0, -1.0, 1.0)
        angle = radians(30) * strength
        maps = {
            1: [[cos(angle), sin(angle), 0], [-sin(angle), cos(angle), 0]],
            2: [[1, 0.3 * strength, 0], [0, 1, 0]],
            3: [[1, 0, 0], [0.3 * strength, 1, 0]],
            4: [[1, 0, 0.2 * width * strength], [0, 1, 0]],
            5: [[1, 0, 0], [0, 1, 0.2 * height * strength]],
        }
        if which in maps:
            image = warped(image, maps[which], fill)
        elif which in (6, 7, 8):
            image = colour(image, which - 6, 1 + 0.8 * strength).round().to(torch.uint8)
        elif which == 9:
            step = 2 ** round(4 * abs(strength))
            image = image // step * step
        elif which == 10:
            image = torch.where(image >= floor(256 * (1 - abs(strength))), 255 - image, image)
    return image
