"""How arrays become examples: what their axes mean and how they are scaled, decided by the first task."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from esacl.documents import Finite, Positive, Spread
from esacl.errors import ConfigError, InputError
from esacl.streams.arrays import channel_axis
from esacl.streams.images import measured_inputs
from esacl.streams.inputs import ImageInputs
from esacl.streams.resize import Rule

CHANNELS = ("auto", "first", "last")
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class InputLayout:
    """What an example looks like, and the mean and spread that it is scaled by.

    Images of bytes are kept as bytes and scaled where the network reads them, channel by channel. Everything else is
    kept as scaled floats: images by channel, features all by the same two numbers, so that one that hardly varies in
    the first task cannot swamp the others later.
    """

    kind: Literal["features", "images"]
    shape: tuple[Positive, Positive, Positive]
    stored: Literal["uint8", "float32"]
    mean: tuple[Finite, ...]
    std: tuple[Spread, ...]
    resize: Rule = "squash"  # image files of another shape; the first versions squashed them

    def __post_init__(self) -> None:
        """Refuse a scale of another number of channels."""
        if not len(self.mean) == len(self.std) == self.shape[0]:
            raise ValueError(f"{len(self.mean)} means and {len(self.std)} spreads for {self.shape[0]} channels")

    @staticmethod
    def of(array: Array, channels: str, resize: Rule) -> "InputLayout":
        """The layout of the first task's examples."""
        kind, moved = arranged(array, channels)
        shape = (moved.shape[1], moved.shape[2], moved.shape[3])
        if moved.dtype == np.uint8:
            inputs = measured_inputs(_tensor(moved))
            return InputLayout(kind, shape, "uint8", inputs.mean, inputs.std, resize)
        axes = (0, 2, 3)
        mean = moved.mean(axes, dtype=np.float64)
        std = np.sqrt(np.square(moved - mean[:, None, None], dtype=np.float64).mean(axes))
        std[std == 0] = 1.0  # a constant has no spread to divide by
        return InputLayout(kind, shape, "float32", tuple(mean.tolist()), tuple(std.tolist()), resize)

    @property
    def inputs(self) -> ImageInputs:
        """How the network reads what is stored; floats are scaled already."""
        return ImageInputs(self.mean, self.std)

    def examples(self, array: Array, channels: str) -> Tensor:
        """Arrays of this layout as they are stored: [N, C, H, W]."""
        kind, moved = arranged(array, channels)
        stored = "uint8" if moved.dtype == np.uint8 else "float32"
        if (kind, moved.shape[1:], stored) != (self.kind, self.shape, self.stored):
            raise InputError(
                f"X holds {_told(kind, moved.shape[1:], stored)}, but this classifier has learnt from "
                f"{_told(self.kind, self.shape, self.stored)}. Give it X of that form, or start anew with fit."
            )
        if stored == "uint8":
            return _tensor(moved)
        mean, std = (np.array(values)[:, None, None] for values in (self.mean, self.std))
        with np.errstate(over="ignore"):  # what overflows is told below
            scaled = ((moved - mean) / std).astype(np.float32)
        if not np.isfinite(scaled).all():
            raise InputError("X has values that are too large for 32-bit numbers. Scale X down.")
        return _tensor(scaled)


def _tensor(array: Array) -> Tensor:
    """The caller's memory where torch can use it as it is, else a copy."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def arranged(array: Array, channels: str) -> tuple[Literal["features", "images"], Array]:
    """Features as [N, 1, 1, D], images as [N, C, H, W]; bytes stay bytes in images only."""
    if channels not in CHANNELS:
        raise ConfigError(f"channels = {channels!r} is not allowed. Allowed: {', '.join(map(repr, CHANNELS))}.")
    if array.dtype.kind not in "biuf":
        raise InputError(f"X holds values of type {array.dtype}. Give numbers.")
    if array.ndim == 2:
        return "features", array.astype(np.float64, copy=False)[:, None, None, :]
    if array.ndim not in (3, 4):
        raise InputError(
            f"X has shape {list(array.shape)}. Allowed: features [N, D], or images [N, H, W], [N, C, H, W] or "
            f"[N, H, W, C]."
        )
    array = array if array.dtype == np.uint8 else array.astype(np.float64, copy=False)
    if array.ndim == 3:
        return "images", array[:, None]
    axis = channel_axis(array.shape) if channels == "auto" else {"first": 1, "last": 3}[channels]
    if axis is None:
        raise InputError(
            f"X has shape {list(array.shape)}: it cannot be told which axis is the channels, as not exactly one of the "
            f"second and the last has length 1 or 3. Set channels='first' for [N, C, H, W] or 'last' for [N, H, W, C]."
        )
    return "images", np.moveaxis(array, axis, 1)


def _told(kind: str, shape: tuple[int, ...], stored: str) -> str:
    """A layout in words."""
    if kind == "features":
        return f"{shape[-1]} features"
    numbers = "bytes (uint8)" if stored == "uint8" else "floats"
    return f"images of {shape[0]} channels, {shape[1]}×{shape[2]} pixels, as {numbers}"
