"""What a readout is fitted on: the memory of earlier classes, and images of the task that has just ended."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from esacl.options import option
from esacl.rng import generator
from esacl.streams.base import Examples, Task
from esacl.types import Context

ALONE = 200  # images of each class where there are no others to balance them with


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Settings of readouts that take as many images of each class."""

    sample: float = option(
        1.0,
        "images of each class of the task, as a multiple of what is remembered of an earlier one",
        low=0.1,
        high=1e6,
    )


def balanced(context: Context, task: Task, remembered: Examples | None, sample: float) -> Examples:
    """What is remembered of earlier classes, and equally many images of each class of the task, drawn at random."""
    held = earlier(task, remembered)
    mean = ALONE if held is None else len(held) / len(set(held.y.tolist()))
    order = torch.randperm(len(task.train), generator=generator(context.seed, "readout", task.index))
    each = max(1, round(sample * mean))
    own = torch.cat([order[task.train.y[order] == column][:each] for column in task.classes])
    return together(task.train.take(own), held)


def earlier(task: Task, remembered: Examples | None) -> Examples | None:
    """What is remembered and is not in the task: of earlier tasks, whether or not their classes return."""
    if remembered is None:
        return None
    known = list(_identities(remembered))
    own = {*known}.intersection(_identities(task.train))
    rows = [row for row, each in enumerate(known) if each not in own]
    return remembered.take(torch.tensor(rows)) if rows else None


def _identities(examples: Examples) -> Iterator[tuple[int, bytes]]:
    """What an example is told by: its class and its image."""
    for images, columns in examples.portions():
        yield from zip(columns.tolist(), (image.tobytes() for image in images.numpy()))


def together(own: Examples, held: Examples | None) -> Examples:
    """Images of the task before the remembered ones."""
    return own if held is None else Examples.joined([own, held])
