"""Batches of a task: shuffled, augmented and normalised as whole tensors, with nothing left to chance."""

from collections.abc import Iterator

import torch
from torch import Tensor

from esacl.rng import derive, generator
from esacl.streams.base import Examples, Stream
from esacl.streams.rows import in_turn
from esacl.types import Batch


class Loader:
    """Batches of one stage; an epoch's order and augmentation depend on (seed, stage, epoch) only.

    With `copies` the augmentations of the first so many epochs return in turn.
    """

    def __init__(
        self,
        stream: Stream,
        stage: int,
        examples: Examples,
        batch_size: int,
        seed: int,
        device: torch.device,
        views: int = 1,
        copies: int = 0,
    ) -> None:
        self.stage = stage
        self.examples = examples
        self.batch_size = batch_size
        self._inputs = stream.inputs
        self._task_of = stream.task_of_at(stage)
        self._seed = seed
        self._device = device
        self._views = views
        self._copies = copies

    def epoch(self, number: int, subset: Tensor | None = None) -> Iterator[Batch]:
        """The examples (or the `subset` of them) in a new order, in batches."""
        examples = self.examples
        pool = torch.arange(len(examples)) if subset is None else subset
        order = pool[torch.randperm(len(pool), generator=generator(self._seed, "order", self.stage, number))]
        copy = number % self._copies if self._copies else number
        keys = [derive(self._seed, "augment", self.stage, copy, view) for view in range(self._views)]
        batches = order.tensor_split(cuts(len(order), self.batch_size))
        for index, stored in zip(batches, in_turn(examples.x, batches)):
            labels = examples.y[index]
            raw = stored.to(self._device, non_blocking=True)
            where = index.to(self._device)
            views = tuple(self._inputs.augmented(raw, key, where) for key in keys)
            yield Batch(views, raw, labels.to(self._device), self._task_of[labels].to(self._device), where)

    def steps(self, examples: int | None = None) -> int:
        """Batches of an epoch over so many examples (all by default)."""
        return len(cuts(len(self.examples) if examples is None else examples, self.batch_size)) + 1


def cuts(examples: int, batch_size: int) -> list[int]:
    """Where an epoch is cut into batches.

    A single example left over joins the batch before it: BatchNorm cannot normalise one example.

    >>> cuts(10, 4), cuts(9, 4)
    ([4, 8], [4])
    """
    places = list(range(batch_size, examples, batch_size))
    if places and examples - places[-1] == 1:
        places.pop()
    return places
