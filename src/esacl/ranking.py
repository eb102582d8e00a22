"""The k largest of many values, exactly k of them: for vertices, for pruning and for data selection."""

from collections.abc import Sequence
from math import inf

import numpy as np
import torch
from torch import Tensor


def kth_largest(values: Tensor, k: int) -> Tensor:
    """The k-th largest value, as a tensor without dimensions.

    On the CPU by numpy's introselect, which is several times faster there than torch's topk.

    >>> kth_largest(torch.tensor([3.0, 1.0, 2.0]), 2)
    tensor(2.)
    """
    flat = values.detach().flatten()
    if flat.device.type == "cpu" and flat.dtype in (torch.float32, torch.float64):
        place = len(flat) - k
        return flat.new_tensor(np.partition(flat.numpy(), place)[place])
    return flat.topk(k).values[-1]


def largest(values: Tensor, k: int) -> Tensor:
    """Mask of the k largest values; among equal ones, those that come first.

    >>> largest(torch.tensor([1.0, 5.0, 1.0, 1.0]), 2)
    tensor([ True,  True, False, False])
    """
    if k <= 0:
        return torch.zeros_like(values, dtype=torch.bool)
    if k >= values.numel():
        return torch.ones_like(values, dtype=torch.bool)
    threshold = kth_largest(values, k)
    chosen = values >= threshold
    surplus = int(chosen.sum()) - k
    if surplus < 0:  # what is not a number compares with nothing: it ranks first, so that it does not go unnoticed
        return largest(values.nan_to_num(nan=inf, posinf=inf), k)
    if surplus:
        ties = (values == threshold).nonzero()[-surplus:]
        chosen[tuple(ties.T)] = False
    return chosen


def largest_of_all(blocks: Sequence[Tensor], k: int) -> list[Tensor]:
    """Masks of the k largest values of all blocks together."""
    chosen = largest(torch.cat([block.flatten() for block in blocks]), k)
    parts = torch.split(chosen, [block.numel() for block in blocks])
    return [part.view(block.shape) for part, block in zip(parts, blocks)]
