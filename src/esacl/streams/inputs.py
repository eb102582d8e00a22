"""From stored examples to network inputs: crop + flip, size and normalisation of a whole batch at once."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from esacl.rng import derive, keyed_integers
from esacl.streams.augment import BASIC, STRONG, applied, named
from esacl.streams.resize import Rule, resized

_ALWAYS = ("mean", "std", "padding", "flip")


@cache
def _constants(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Factor and offset of each channel, sent to a device once."""
    scale = torch.tensor([1 / (255 * s) for s in std], device=device).view(1, -1, 1, 1)
    shift = torch.tensor([-m / s for m, s in zip(mean, std)], device=device).view(1, -1, 1, 1)
    return scale, shift


@dataclass(frozen=True, slots=True, repr=False)
class ImageInputs:
    """Augments by a shifted crop, a horizontal flip and other operations, resizes and normalises by channel.

    `padding` 0, `flip` False and no `operations` mean no augmentation. Floats are normalised already and never
    augmented. Images may be stored smaller than the network reads them: `size` is then what they are resized to, in
    every batch anew.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int = 0
    flip: bool = False
    size: int | None = None  # side of the square that the network reads; None: as stored
    operations: tuple[str, ...] = ()  # of `esacl.streams.augment`, in their order
    resize: Rule = "crop"  # how images of other sizes are brought to that of the network

    def __repr__(self) -> str:
        """Without what is left at its default, so that fingerprints of streams last."""
        told = [each for each in fields(self) if each.name in _ALWAYS or getattr(self, each.name) != each.default]
        return f"ImageInputs({', '.join(f'{each.name}={getattr(self, each.name)!r}' for each in told)})"

    def shape(self, stored: Sequence[int]) -> tuple[int, int, int]:
        """(channels, height, width) as the network reads images that are stored like that."""
        channels, height, width = stored
        return (channels, height, width) if self.size is None else (channels, self.size, self.size)

    def augmenting(self, setting: str | bool, side: int) -> "ImageInputs":
        """The same for images of that side with the augmentation that is asked for; `standard` is the stream's own."""
        if setting in (True, "standard"):
            return self
        if setting in (False, "none"):
            return replace(self, padding=0, flip=False, operations=())
        if setting == "strong":  # mirrored only where the stream is: a digit is another one then
            return replace(self, padding=0, operations=STRONG)
        names = named(str(setting))
        padding = (self.padding or max(1, side // 8)) if "shift" in names else 0
        others = tuple(name for name in names if name not in BASIC)
        return replace(self, padding=padding, flip="flip" in names, operations=others)

    @property
    def augments(self) -> bool:
        """Whether `augmented` differs from `plain`."""
        return self.padding > 0 or self.flip or bool(self.operations)

    def plain(self, raw: Tensor) -> Tensor:
        """At the network's size and normalised, not augmented."""
        if self.size is not None:
            raw = resized(raw, (self.size, self.size), self.resize)
        if raw.dtype != torch.uint8:
            return raw
        scale, shift = _constants(self.mean, self.std, raw.device)
        return raw * scale + shift

    def augmented(self, raw: Tensor, key: int, index: Tensor) -> Tensor:
        """Each example changed by numbers that depend on (key, its index) only."""
        if not self.augments or raw.dtype != torch.uint8:
            return self.plain(raw)
        images = self.crop_and_flip(raw, key, index) if self.padding or self.flip else raw
        fill = torch.tensor([round(255 * mean) for mean in self.mean])
        for name in self.operations:
            images = applied(name, images, derive(key, name), index, fill)
        return self.plain(images)

    def crop_and_flip(self, raw: Tensor, key: int, index: Tensor) -> Tensor:
        """The zero-padded batch, gathered at shifted and mirrored coordinates."""
        height, width = raw.shape[-2:]
        span = 2 * self.padding + 1
        top = keyed_integers(key, 3 * index, span)
        left = keyed_integers(key, 3 * index + 1, span)
        mirrored = keyed_integers(key, 3 * index + 2, 2) * int(self.flip)
        rows = top[:, None] + torch.arange(height, device=raw.device)
        across = torch.arange(width, device=raw.device)
        columns = left[:, None] + torch.where(mirrored[:, None] == 1, across.flip(0), across)
        padded = pad(raw, [self.padding] * 4)
        batch = torch.arange(len(raw), device=raw.device)[:, None, None]
        cropped = padded.permute(0, 2, 3, 1)[batch, rows[:, :, None], columns[:, None, :]]  # [B, H, W, C]
        return cropped.permute(0, 3, 1, 2)
