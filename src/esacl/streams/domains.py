"""Domain-incremental streams: the same classes in every task, each time in a new look."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import cos, radians, sin

import torch
from torch import Tensor

from esacl.config import StreamConfig
from esacl.errors import ConfigError
from esacl.rng import generator
from esacl.streams.base import Examples, Source, Stream, Task
from esacl.streams.split import split

TASKS = 5
"""Looks, unless a run asks for another number."""

HALF_TURN = 180.0  # degrees over which tasks are spread: a 6 that is turned further is a 9

Look = Callable[[Tensor, int, int], Tensor]  # (images, task, tasks) → the same images as that task shows them


def domain_stream(source: Source, config: StreamConfig, seed: int) -> Stream:
    """Every task has all examples of all classes; what is held out in one task is held out in all."""
    classes, tasks = len(source.class_names), TASKS if config.tasks is None else config.tasks
    if config.classes_per_task not in (None, classes):
        raise ConfigError(
            "{given} is not allowed: every task of {stream!r} has all {classes} classes.",
            "stream.classes_per_task",
            config.classes_per_task,
            remedy="Leave it out.",
            stream=source.name,
            classes=classes,
        )
    if config.blur:
        wrong = "{given} is of no use: every task of {stream!r} has all classes."
        raise ConfigError(wrong, "stream.blur", config.blur, remedy="Leave it out.", stream=source.name)
    upright = split(source, replace(config, tasks=1, classes_per_task=None), seed)
    (only,) = upright.tasks
    transform = TRANSFORMS[source.name]

    def shown(part: Examples, index: int) -> Examples:
        return Examples(transform(part.x[:], index, tasks), part.y)

    parts = tuple(
        Task(index, only.classes, *(shown(part, index) for part in (only.train, only.validation, only.test)))
        for index in range(tasks)
    )
    return replace(upright, tasks=parts, stages=parts)


def rotated(images: Tensor, task: int, tasks: int) -> Tensor:
    """Turned anticlockwise by task / tasks of half a turn."""
    return rotate(images, HALF_TURN * task / tasks)


def permuted(images: Tensor, task: int, tasks: int) -> Tensor:
    """Pixels in an order that every later task draws once, the same for every seed."""
    if task == 0:
        return images
    order = torch.randperm(images.shape[-2:].numel(), generator=generator(0, "permuted pixels", task))
    return images.flatten(2)[:, :, order].view_as(images)


def rotate(images: Tensor, degrees: float) -> Tensor:
    """uint8 images [N, C, H, W] turned about their centre, anticlockwise; bilinear, black from outside."""
    height, width = images.shape[-2:]
    down = torch.arange(height, dtype=torch.float64)[:, None] - (height - 1) / 2
    across = torch.arange(width, dtype=torch.float64)[None, :] - (width - 1) / 2
    turn_cos, turn_sin = round(cos(radians(degrees)), 12), round(sin(radians(degrees)), 12)
    rows = turn_cos * down + turn_sin * across + (height - 1) / 2  # where each pixel comes from
    columns = turn_cos * across - turn_sin * down + (width - 1) / 2
    turned = torch.zeros(images.shape, dtype=torch.float64)
    for row, row_share in _neighbours(rows):
        for column, column_share in _neighbours(columns):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            pixels = images[:, :, row.clamp(0, height - 1), column.clamp(0, width - 1)]
            turned += torch.where(inside, row_share * column_share, 0.0) * pixels
    return turned.round().to(images.dtype)


def _neighbours(places: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The whole numbers below and above, and what each of them counts for."""
    below = places.floor()
    above_share = places - below
    return (below.long(), 1 - above_share), (below.long() + 1, above_share)


TRANSFORMS: Mapping[str, Look] = {"rotated-digits": rotated, "permuted-digits": permuted}
"""Streams of digits by name, and how a task shows them."""
