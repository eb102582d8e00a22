"""Naïve twin of the reservoir: one example at a time, in a Python list (Vitter's algorithm R)."""

import torch
from torch import Tensor


class NaiveReservoir:
    """Keeps (image, label, logits) triples; is fed with the same random numbers as the batched one."""

    def __init__(self, capacity: int, generator: torch.Generator) -> None:
        self.capacity = capacity
        self.generator = generator
        self.seen = 0
        self.kept: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self.collisions = 0  # examples that displaced one of their own batch

    def add(self, raw: Tensor, y: Tensor, logits: Tensor | None = None) -> None:
        """Offer the examples of a batch in turn."""
        chances = torch.rand(len(y), generator=self.generator, dtype=torch.float64).tolist()
        filled: set[int] = set()
        for row, chance in enumerate(chances):
            example = (raw[row].clone(), y[row].clone(), None if logits is None else logits[row].clone())
            self.seen += 1
            if len(self.kept) < self.capacity:
                filled.add(len(self.kept))
                self.kept.append(example)
                continue
            slot = int(chance * self.seen)
            if slot < self.capacity:
                self.collisions += slot in filled
                filled.add(slot)
                self.kept[slot] = example

    def draw(self, count: int) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        """Some of what is kept, without repetition."""
        order = torch.randperm(len(self.kept), generator=self.generator).tolist()
        return [self.kept[place] for place in order[:count]]
