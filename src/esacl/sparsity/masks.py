"""Masks as they are kept: packed bits. And how small they get: their size in a Huffman code over 7-bit symbols."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from esacl.types import Params, State

SYMBOL = 7  # bits that are coded together
SYMBOLS = 1 << SYMBOL


def pack(mask: Tensor) -> Tensor:
    """Eight entries a byte.

    >>> pack(torch.tensor([True, False, False, True]))
    tensor([144], dtype=torch.uint8)
    """
    return torch.from_numpy(np.packbits(mask.detach().flatten().cpu().numpy()))


def unpack(packed: Tensor, shape: Iterable[int]) -> Tensor:
    """The mask of that shape that was packed.

    >>> unpack(torch.tensor([144], dtype=torch.uint8), (2, 2))
    tensor([[ True, False],
            [False,  True]])
    """
    size = torch.Size(shape)
    bits = np.unpackbits(packed.cpu().numpy(), count=size.numel())
    return torch.from_numpy(bits.astype(bool)).view(size)


def packed(masks: Params) -> State:
    """Masks as they are kept."""
    return {name: pack(mask) for name, mask in masks.items()}


def unpacked(state: State, like: Params) -> Params:
    """Masks of these shapes that were packed."""
    for name, mask in like.items():
        if state[name].numel() != -(-mask.numel() // 8):
            raise ValueError(f"the mask of {name} is not one of {mask.numel()} weights")
    return {name: unpack(state[name], mask.shape).to(mask.device) for name, mask in like.items()}


def coded_bits(mask: Tensor) -> int:
    """Bits of a mask in a Huffman code of its own: its words, and a byte for the length of each symbol's word.

    >>> coded_bits(torch.zeros(70, dtype=torch.bool))
    1034
    """
    counts = np.bincount(_symbols(mask), minlength=SYMBOLS)
    return int(counts @ code_lengths(counts)) + 8 * SYMBOLS


def code_lengths(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Length of each symbol's word in a Huffman code; 0 for one that does not occur.

    >>> code_lengths(np.array([5, 0, 2, 1])).tolist()
    [1, 0, 2, 2]
    """
    lengths = np.zeros(len(counts), dtype=np.uint8)
    heap = [(int(counts[symbol]), int(symbol), [int(symbol)]) for symbol in np.flatnonzero(counts)]
    if len(heap) == 1:
        lengths[heap[0][1]] = 1
    heapify(heap)
    while len(heap) > 1:
        few, first, one = heappop(heap)
        more, second, other = heappop(heap)
        lengths[one + other] += 1
        heappush(heap, (few + more, min(first, second), one + other))
    return lengths


def _symbols(mask: Tensor) -> NDArray[np.int64]:
    """The mask's entries, seven at a time, as numbers; zeros fill up the last."""
    bits = mask.detach().flatten().cpu().numpy().astype(np.int64)
    padded = np.concatenate([bits, np.zeros(-len(bits) % SYMBOL, dtype=np.int64)])
    symbols: NDArray[np.int64] = padded.reshape(-1, SYMBOL) @ (1 << np.arange(SYMBOL)[::-1])
    return symbols
