"""Small tasks to learn: features and images of classes that are easy to tell apart."""

from typing import Any

import numpy as np
import numpy.typing as npt

from esacl import ContinualClassifier

Array = npt.NDArray[Any]


def features(classes: range, each: int = 20, seed: int = 0) -> tuple[Array, Array]:
    """Noisy copies of a pattern of 12 numbers for each class, labelled by class."""
    draw = np.random.default_rng(seed)
    y = np.repeat(np.array(classes), each)
    return _patterns(12)[y] + 0.3 * draw.normal(size=(len(y), 12)), y


def images(classes: range, each: int = 20, seed: int = 0, channels: int = 3) -> tuple[Array, Array]:
    """The same as [N, C, 8, 8] bytes."""
    draw = np.random.default_rng(seed)
    y = np.repeat(np.array(classes), each)
    pixels = 128 + 60 * _patterns(channels * 64)[y] + 10 * draw.normal(size=(len(y), channels * 64))
    return pixels.clip(0, 255).astype(np.uint8).reshape(-1, channels, 8, 8), y


def _patterns(length: int) -> Array:
    return np.random.default_rng(99).normal(size=(10, length))


def small(method: str = "esacl-der++", **changes: Any) -> ContinualClassifier:
    """A classifier that learns a small task in a fraction of a second."""
    settings: dict[str, Any] = {"width": 24, "epochs": 6, "batch_size": 8, "random_state": 0, "max_classes": 12}
    return ContinualClassifier(method, **{**settings, **changes})
