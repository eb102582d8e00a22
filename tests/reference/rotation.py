"""A rotation that looks up every pixel by itself."""

from math import cos, floor, radians, sin

import torch


def rotated_pixel_by_pixel(images, degrees):
    """Bilinear, about the centre, anticlockwise, black from outside."""
    height, width = images.shape[-2:]
    turned = torch.zeros_like(images)
    for row in range(height):
        for column in range(width):
            down, across = row - (height - 1) / 2, column - (width - 1) / 2
            angle = radians(degrees)
            from_row = cos(angle) * down + sin(angle) * across + (height - 1) / 2
            from_column = cos(angle) * across - sin(angle) * down + (width - 1) / 2
            top, left = floor(round(from_row, 9)), floor(round(from_column, 9))
            value = torch.zeros(images.shape[:2], dtype=torch.float64)
            for i in (top, top + 1):
                for j in (left, left + 1):
                    if 0 <= i < height and 0 <= j < width:
                        value += (1 - abs(from_row - i)) * (1 - abs(from_column - j)) * images[:, :, i, j]
            turned[:, :, row, column] = value.round().to(torch.uint8)
    return turned
