"""How much of the network a method uses: by the paper's formula, and as it can be stored."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from esacl.sparsity.masks import coded_bits
from esacl.types import Params

MASK_COMPRESSION = 0.75  # γ: share of a mask's bits that coding saves, as the paper assumes
BITS = 32  # of a weight


def capacity(density: float, tasks: int, stores_masks: bool) -> float:
    """(1 − S) + (1 − γ)·T/32: weights kept, and the masks of all tasks for methods that store them.

    >>> capacity(1.0, 5, stores_masks=False)
    1.0
    >>> round(capacity(0.2, 10, stores_masks=True), 6)
    0.278125
    """
    return density + ((1 - MASK_COMPRESSION) * tasks / BITS if stores_masks else 0.0)


def measured_capacity(
    density: float, sizes: Mapping[str, int], masks: Sequence[Params], beside: Mapping[str, Tensor] | None = None
) -> float:
    """Bits of what must be stored over those of all prunable weights.

    The values that are used, the masks, Huffman-coded over 7-bit symbols, and of what stands `beside` them the numbers:
    biases and normalisation that tasks have of their own.

    >>> measured_capacity(0.5, {"a": 100}, [])
    0.5
    """
    weights = sum(sizes.values())
    coded = sum(coded_bits(torch.cat([mask[name].flatten() for name in sizes])) for mask in masks)
    numbers = sum(BITS * value.numel() for value in (beside or {}).values() if value.is_floating_point())
    return density + (coded + numbers) / (BITS * weights) if weights else 1.0
