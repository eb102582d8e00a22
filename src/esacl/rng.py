"""Randomness by name: every consumer has its own generator, and no module touches a global one.

A generator is derived from (seed, name, ...), so adding a consumer never shifts another's numbers.
Where a number must belong to an *example* (augmentation), it is a hash of its key instead of a draw.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch
from torch import Tensor


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends on every name, in order.

    >>> derive(0, "order", 1) != derive(0, "order", 2)
    True
    """
    text = "\x1f".join([str(seed), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, *names: str | int) -> torch.Generator:
    """A CPU generator of its own for the consumer called `names`."""
    return torch.Generator().manual_seed(derive(seed, *names))


@contextmanager
def randomness(seed: int, name: str) -> Iterator[None]:
    """Torch's global generator, which others' code draws from, as the seed and a name have it; afterwards as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive(seed, name))
        yield


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift of int64 (torch's own is arithmetic)."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    """The int64 with the same bits as the unsigned `word`."""
    return word - (1 << 64) if word >= 1 << 63 else word


_GAMMA = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def keyed_integers(key: int, index: Tensor, below: int) -> Tensor:
    """One integer in [0, below) for each element of `index`: SplitMix64 of (key, index), batched.

    The same (key, index) always gives the same number, whatever else is in the batch.
    """
    z = (index.to(torch.int64) + 1) * _GAMMA + key
    z = (z ^ _shift(z, 30)) * _MIX_1
    z = (z ^ _shift(z, 27)) * _MIX_2
    z = z ^ _shift(z, 31)
    return _shift(z, 33) * below >> 31  # 31 random bits, scaled: bias below 2^-20 for below < 2^11
