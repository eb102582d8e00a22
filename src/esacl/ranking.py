"""The k largest of many values, exactly k of them: for vertices, for pruning and for data selection."""

from collections.abc import Sequence
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SAMPLE = 16  # one in so many values of a long vector is looked at first


def places(values: Tensor, k: int) -> Tensor:
    """Positions of the k largest values of a vector, ascending; among equal ones, those that come first.

    What is not a number ranks first, so that it does not go unnoticed.

    >>> places(torch.tensor([1.0, 5.0, 1.0, 1.0]), 2)
    tensor([0, 1])
    """
    if k <= 0 or k >= len(values):
        return torch.arange(len(values) if k > 0 else 0, device=values.device)
    flat = values.detach()
    if flat.dtype not in (torch.float32, torch.float64):  # numpy has not all the others
        flat = flat.float()
    if flat.device.type == "cpu":  # numpy compares and selects several times faster than torch there
        return torch.from_numpy(_places(flat.numpy(), k))
    found = flat.nan_to_num(nan=inf).sort(descending=True, stable=True).indices[:k]
    return found.sort().values


def _places(values: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """`places` on the CPU."""
    near = _near(values, k)
    top = values[near]
    threshold = np.partition(top, len(near) - k)[len(near) - k]
    above = top >= threshold
    surplus = int(above.sum()) - k
    if surplus < 0:  # what is not a number compares with nothing
        return _places(np.nan_to_num(values, nan=inf, posinf=inf), k)
    if surplus:
        above[np.flatnonzero(top == threshold)[-surplus:]] = False
    found: NDArray[np.intp] = near[above]
    return found


def _near(values: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """Positions of at least k values, the k largest among them; few, where a sample tells where to cut."""
    sample = values[::SAMPLE]
    rank = 3 * k // (2 * SAMPLE) + SAMPLE  # half as many again as k, and some more: seldom too few
    if rank < len(sample):
        cut = np.partition(sample, len(sample) - rank)[len(sample) - rank]
        near = np.flatnonzero(~(values < cut))  # with what is not a number
        if len(near) >= k:
            return near
    return np.arange(len(values))


def largest(values: Tensor, k: int) -> Tensor:
    """Mask of the k largest values; among equal ones, those that come first.

    >>> largest(torch.tensor([[1.0, 5.0], [1.0, 1.0]]), 2)
    tensor([[ True,  True],
            [False, False]])
    """
    chosen = torch.zeros(values.numel(), dtype=torch.bool, device=values.device)
    chosen[places(values.flatten(), k)] = True
    return chosen.view(values.shape)


def largest_of_all(blocks: Sequence[Tensor], k: int) -> list[Tensor]:
    """Masks of the k largest values of all blocks together."""
    chosen = largest(torch.cat([block.flatten() for block in blocks]), k)
    parts = torch.split(chosen, [block.numel() for block in blocks])
    return [part.view(block.shape) for part, block in zip(parts, blocks)]
