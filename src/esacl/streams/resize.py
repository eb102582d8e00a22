"""Images of any size brought to one size: which part of an image is shown, and where it lies in the result."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

Rule = Literal["crop", "pad", "squash"]
"""crop: the largest middle part of that shape; pad: the whole image on black; squash: the whole image, distorted."""

_AT_ONCE = 1024  # images that are resized together


class Window(NamedTuple):
    """A rectangle of pixels."""

    top: int
    left: int
    height: int
    width: int

    def of(self, images: Tensor) -> Tensor:
        """That part of the images."""
        return images[..., self.top : self.top + self.height, self.left : self.left + self.width]


def placed(source: tuple[int, int], target: tuple[int, int], rule: Rule) -> tuple[Window, Window]:
    """What is shown of an image of size `source`, and where it lies in one of size `target`.

    >>> placed((40, 60), (20, 20), "crop")[0], placed((40, 60), (20, 20), "pad")[1]
    (Window(top=0, left=10, height=40, width=40), Window(top=3, left=0, height=13, width=20))
    """
    shown = _fitted(target, source) if rule == "crop" else source
    filled = _fitted(source, target) if rule == "pad" else target
    return _centred(shown, source), _centred(filled, target)


def resized(images: Tensor, size: tuple[int, int], rule: Rule) -> Tensor:
    """Images [N, C, H, W] at another size: bilinear, averaged where they shrink; bytes stay bytes."""
    if tuple(images.shape[-2:]) == size:
        return images
    shown, filled = placed((images.shape[-2], images.shape[-1]), size, rule)
    if len(images) <= _AT_ONCE:
        scaled = _interpolated(shown.of(images), filled)
        if filled[2:] == size:
            return scaled
        out = images.new_zeros(*images.shape[:2], *size)
        filled.of(out).copy_(scaled)
        return out
    out = images.new_empty(*images.shape[:2], *size)
    for start in range(0, len(images), _AT_ONCE):
        out[start : start + _AT_ONCE] = resized(images[start : start + _AT_ONCE], size, rule)
    return out


def _interpolated(images: Tensor, to: Window) -> Tensor:
    """Bytes in the arithmetic of Pillow where torch has it (on the CPU, but for single pixels); else by floats."""
    native = images.device.type == "cpu" and to.height * to.width > 1
    rounded = images.dtype == torch.uint8 and not native
    values = images.float() if rounded else images
    scaled = interpolate(values, (to.height, to.width), mode="bilinear", antialias=True, align_corners=False)
    return scaled.round().clamp(0, 255).to(torch.uint8) if rounded else scaled


def _fitted(shape: tuple[int, int], room: tuple[int, int]) -> tuple[int, int]:
    """The largest size of that shape's proportions with room in the other, at least a pixel."""
    (height, width), (most_height, most_width) = shape, room
    if height * most_width >= width * most_height:
        return most_height, min(most_width, max(1, round(width * most_height / height)))
    return min(most_height, max(1, round(height * most_width / width))), most_width


def _centred(size: tuple[int, int], room: tuple[int, int]) -> Window:
    return Window((room[0] - size[0]) // 2, (room[1] - size[1]) // 2, *size)
