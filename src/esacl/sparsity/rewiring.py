"""Dynamic masks: how many weights of a layer live, which of them stay, which others come to life, and when."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Literal

from torch import Tensor

from esacl.ranking import largest

Moment = Literal["expand", "adjust", "shrink"]


def even_counts(sizes: Mapping[str, int], share: float) -> dict[str, int]:
    """Live weights of each layer: the same share of each, up to one weight, and exactly that share of all together.

    >>> even_counts({"a": 3, "b": 3, "c": 10}, 0.5)
    {'a': 2, 'b': 1, 'c': 5}
    """
    ends = [round(share * end) for end in accumulate(sizes.values(), initial=0)]
    return {name: after - before for name, before, after in zip(sizes, ends, ends[1:])}


def fittest(live: Tensor, scores: Tensor, count: int) -> Tensor:
    """Mask of the `count` live weights with the largest scores (none is negative); of all, where there are fewer."""
    return largest(scores.masked_fill(~live, -1.0), min(count, int(live.sum())))


def grown(live: Tensor, scores: Tensor, count: int) -> Tensor:
    """The live weights and as many others, those with the largest scores, as make `count` together."""
    return live | largest(scores.masked_fill(live, -1.0), count - int(live.sum()))


def moment(epoch: int, epochs: int, interval: float) -> Moment | None:
    """What happens to the masks when an epoch of a task starts; intervals are shares of the task's epochs.

    The last fifth is quiet, but for a shrinking after nine tenths.

    >>> [epoch for epoch in range(50) if moment(epoch, 50, 0.1) == "adjust"]
    [5, 10, 15, 20, 25, 30, 35, 40]
    >>> [moment(epoch, 3, 0.1) for epoch in range(3)]
    ['expand', 'adjust', 'adjust']
    """
    if epoch == 0:
        return "expand"
    if 10 * epoch >= 9 * epochs:
        return "shrink"
    regular = epoch % max(1, round(interval * epochs)) == 0
    return "adjust" if regular and 10 * epoch <= 8 * epochs else None
