"""Stored examples by row: a tensor in memory, or images that are read when they are asked for."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

PORTION = 256  # examples that are read together


class OnDemand(ABC):
    """Images of bytes [N, C, H, W] that are read when their rows are asked for: indexed as a tensor is."""

    dtype = torch.uint8
    shape: torch.Size

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Tensor:
        """The images at a row, a slice, a mask or a tensor of rows, in memory."""
        places = torch.arange(len(self))[rows]
        return self.read(places) if places.ndim else self.read(places.unsqueeze(0))[0]

    @abstractmethod
    def read(self, rows: Tensor) -> Tensor:
        """The images at these rows; the same bits whenever they are asked for."""

    @abstractmethod
    def identity(self, rows: Tensor) -> str:
        """What tells the images at these rows from others, without reading them."""


Rows = Tensor | OnDemand


@dataclass(frozen=True, slots=True)
class Part(OnDemand):
    """Some rows of a larger set."""

    whole: OnDemand
    rows: Tensor

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """[N, C, H, W]."""
        return torch.Size([len(self.rows), *self.whole.shape[1:]])

    def read(self, rows: Tensor) -> Tensor:
        """Those of the larger set."""
        return self.whole.read(self.rows[rows])

    def identity(self, rows: Tensor) -> str:
        """That of the larger set's rows."""
        return self.whole.identity(self.rows[rows])


@dataclass(frozen=True, slots=True)
class Joined(OnDemand):
    """Several sets, one after the other."""

    parts: tuple[Rows, ...]

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """[N, C, H, W]."""
        return torch.Size([sum(map(len, self.parts)), *self.parts[0].shape[1:]])

    def read(self, rows: Tensor) -> Tensor:
        """Each part's own rows, put into the order that was asked for."""
        out = torch.empty(len(rows), *self.shape[1:], dtype=self.dtype)
        for part, places, own in self._of_parts(rows):
            out[places] = part[own]
        return out

    def identity(self, rows: Tensor) -> str:
        """Those of the parts."""
        return repr([identity(taken(part, own)) for part, _, own in self._of_parts(rows)])

    def _of_parts(self, rows: Tensor) -> Iterator[tuple[Rows, Tensor, Tensor]]:
        """Each part with the places of its rows among those that were asked for, and these rows."""
        first = 0
        for part in self.parts:
            places = ((rows >= first) & (rows < first + len(part))).nonzero().squeeze(1)
            yield part, places, rows[places] - first
            first += len(part)


def taken(x: Rows, rows: Tensor) -> Rows:
    """Some rows; they are read only when they are asked for again, if they are not in memory."""
    return x[rows] if isinstance(x, Tensor) else Part(x, torch.arange(len(x))[rows])


def joined(parts: Sequence[Rows]) -> Rows:
    """Several sets one after the other, in memory if all of them are."""
    held = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(held) if len(held) == len(parts) else Joined(tuple(parts))


def identity(x: Rows) -> bytes:
    """What tells a set from another: a sample of its values, or what its files are."""
    if isinstance(x, Tensor):
        return x[:: max(1, len(x) // 16)].contiguous().numpy().tobytes()
    return x.identity(torch.arange(len(x))).encode()


def in_turn(x: Rows, groups: Iterable[Tensor]) -> Iterator[Tensor]:
    """The images of each group of rows; those of the next are read while one is used, if they are not in memory."""
    if isinstance(x, Tensor):
        yield from (x[rows] for rows in groups)
        return
    with ThreadPoolExecutor(1) as ahead:
        coming: Future[Tensor] | None = None
        for rows in groups:
            following = ahead.submit(x.__getitem__, rows)
            if coming is not None:
                yield coming.result()
            coming = following
        if coming is not None:
            yield coming.result()


def portions(x: Rows, size: int = PORTION) -> Iterator[Tensor]:
    """All images in their order, so many at a time."""
    return in_turn(x, torch.split(torch.arange(len(x)), size))
