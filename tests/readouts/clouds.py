"""Points to fit readouts on."""

import torch
from torch import Tensor

from esacl.rng import generator
from esacl.streams.base import Examples
from tests.builders import stream

STREAM = stream()


def clouds(counts: list[int], size: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Overlapping clouds of points, so many of each class."""
    draw = generator(seed, "clouds")
    labels = torch.tensor([label for label, count in enumerate(counts) for _ in range(count)])
    centres = torch.randn(len(counts), size, generator=draw, dtype=torch.float64)
    return centres[labels] + torch.randn(len(labels), size, generator=draw, dtype=torch.float64), labels


def remembered(*columns: int, each: int = 3) -> Examples:
    """Some training examples of each class."""
    train = Examples(torch.cat([t.train.x for t in STREAM.tasks]), torch.cat([t.train.y for t in STREAM.tasks]))
    return train.take(torch.cat([(train.y == column).nonzero().squeeze(1)[:each] for column in columns]))
