"""Episodic memory: a bounded sample of the stream, filled by reservoir sampling."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esacl.rng import derive, generator
from esacl.types import Context, State


@dataclass(frozen=True, slots=True)
class Replay:
    """Examples drawn from a memory."""

    x: Tensor
    y: Tensor
    logits: Tensor | None


class Reservoir:
    """After n examples each of them is kept with probability capacity / n (Vitter's algorithm R, batched)."""

    def __init__(self, capacity: int, context: Context, keep_logits: bool = False) -> None:
        self.capacity = capacity
        self.seen = 0
        self.draws = 0
        self._context = context
        self._keep_logits = keep_logits
        self._generator = generator(context.seed, "memory")
        self._augment_key = derive(context.seed, "augment replay")
        self._store: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    def add(self, raw: Tensor, y: Tensor, logits: Tensor | None = None) -> None:
        """Offer a batch: one random slot for each example, and the last one offered to a slot stays."""
        order = torch.arange(self.seen, self.seen + len(y))
        chance = torch.rand(len(y), generator=self._generator, dtype=torch.float64)
        slots = torch.where(order < self.capacity, order, (chance * (order + 1)).long())
        self.seen += len(y)
        winner = torch.full((self.capacity + 1,), -1)  # the last place takes every example that is not kept
        winner.scatter_reduce_(0, slots.clamp(max=self.capacity), torch.arange(len(y)), "amax")
        places = (winner[:-1] >= 0).nonzero().squeeze(1)
        rows = winner[places].to(y.device)
        offered = {"x": raw, "y": y}
        if self._keep_logits:
            assert logits is not None
            offered["logits"] = logits
        for name, values in offered.items():
            if name not in self._store:
                self._store[name] = values.new_zeros((self.capacity, *values.shape[1:]))
            self._store[name][places.to(y.device)] = values[rows]

    def draw(self, count: int) -> Replay:
        """`count` examples at random (all, where there are fewer), without repetition, freshly augmented."""
        rows = torch.randperm(len(self), generator=self._generator)[:count].to(self._context.device)
        number = torch.arange(self.draws, self.draws + len(rows), device=self._context.device)
        self.draws += len(rows)
        x = self._context.inputs.augmented(self._store["x"][rows], self._augment_key, number)
        logits = self._store["logits"][rows] if self._keep_logits else None
        return Replay(x, self._store["y"][rows], logits)

    def examples(self) -> tuple[Tensor, Tensor]:
        """Everything it holds: stored images and labels."""
        return self._store["x"][: len(self)], self._store["y"][: len(self)]

    def state_dict(self) -> State:
        """Contents, counters and the state of its generator."""
        return {
            "seen": self.seen,
            "draws": self.draws,
            "generator": self._generator.get_state(),
            "store": dict(self._store),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.seen, self.draws = state["seen"], state["draws"]
        self._generator.set_state(state["generator"].cpu())
        self._store = {name: value.to(self._context.device) for name, value in state["store"].items()}
