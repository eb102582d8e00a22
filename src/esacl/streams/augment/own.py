"""A transform of the user's own: called for one image at a time, with numbers of its own."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from esacl.code import imported, message
from esacl.errors import ConfigError
from esacl.rng import keyed_integers, randomness


def apply(name: str, images: Tensor, key: int, index: Tensor) -> Tensor:
    """Each image [C, H, W] of bytes after the transform; torch's own generator is set from (key, its index)."""
    transform = _transform(name)
    seeds = keyed_integers(key, index, 1 << 31).tolist()
    return torch.stack([_one(name, transform, image, seed) for image, seed in zip(images, seeds)])


def _one(name: str, transform: Callable[[Tensor], Any], image: Tensor, seed: int) -> Tensor:
    with randomness(seed, "transform"):
        try:
            found = transform(image.clone())
        except Exception as error:
            raise ConfigError(f"the transform {name!r} fails on an image: {message(error)}.") from None
    if not isinstance(found, Tensor) or found.shape != image.shape or found.dtype != torch.uint8:
        got = f"{found.dtype} {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ConfigError(
            f"the transform {name!r} makes {got} of an image of uint8 {list(image.shape)}. It must return the same "
            f"shape and type."
        )
    return found


@cache
def _transform(name: str) -> Callable[[Tensor], Any]:
    found = imported("transform", name, "FUNCTION")
    if not callable(found):
        raise ConfigError(f"transform {name!r} cannot be called. Name a function of an image.")
    return found  # type: ignore[no-any-return]
