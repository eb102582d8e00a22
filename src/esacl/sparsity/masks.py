"""Masks as they are kept: packed bits. And as small as they get: Huffman-coded over 7-bit symbols."""

from collections.abc import Iterable
from dataclasses import dataclass
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
    return {name: unpack(state[name], mask.shape).to(mask.device) for name, mask in like.items()}


@dataclass(frozen=True, slots=True)
class Coded:
    """A mask in a Huffman code: its bits, and for each symbol the length of its code word (0: does not occur)."""

    bits: NDArray[np.uint8]  # one 0 or 1 each
    lengths: NDArray[np.uint8]

    @property
    def size(self) -> int:
        """Bits of both."""
        return len(self.bits) + 8 * len(self.lengths)


def encode(mask: Tensor) -> Coded:
    """A mask in a canonical Huffman code of its own."""
    symbols = _symbols(mask)
    lengths = code_lengths(np.bincount(symbols, minlength=SYMBOLS))
    words = _words(lengths)
    spans = lengths[symbols].astype(np.int64)
    ends = spans.cumsum()
    bits = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for back in range(int(lengths.max())):  # the last bit of every word, then the one before it, ...
        long = spans > back
        bits[ends[long] - 1 - back] = words[symbols[long]] >> np.uint64(back) & np.uint64(1)
    return Coded(bits, lengths)


def decode(coded: Coded, shape: Iterable[int]) -> Tensor:
    """The mask of that shape that was encoded."""
    size = torch.Size(shape)
    words = _words(coded.lengths)
    meant = {(int(coded.lengths[s]), int(words[s])): int(s) for s in np.flatnonzero(coded.lengths)}
    symbols, length, word = [], 0, 0
    for bit in coded.bits.tolist():
        length, word = length + 1, word << 1 | bit
        if (symbol := meant.get((length, word))) is not None:
            symbols.append(symbol)
            length = word = 0
    eight = np.unpackbits(np.array(symbols, dtype=np.uint8)[:, None], axis=1)
    return torch.from_numpy(eight[:, 8 - SYMBOL :].reshape(-1)[: size.numel()].astype(bool)).view(size)


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


def _words(lengths: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The canonical code words of these lengths: ascending by length, then by symbol."""
    words = np.zeros(len(lengths), dtype=np.uint64)
    word, before = 0, 0
    for symbol in sorted(np.flatnonzero(lengths), key=lambda symbol: (lengths[symbol], symbol)):
        word <<= int(lengths[symbol]) - before
        words[symbol], before = word, int(lengths[symbol])
        word += 1
    return words


def _symbols(mask: Tensor) -> NDArray[np.int64]:
    """The mask's entries, seven at a time, as numbers; zeros fill up the last."""
    bits = mask.detach().flatten().cpu().numpy().astype(np.int64)
    padded = np.concatenate([bits, np.zeros(-len(bits) % SYMBOL, dtype=np.int64)])
    symbols: NDArray[np.int64] = padded.reshape(-1, SYMBOL) @ (1 << np.arange(SYMBOL)[::-1])
    return symbols
