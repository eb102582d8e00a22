"""Episodic memory: a bounded sample of the stream, filled by reservoir sampling."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esacl.errors import CheckpointError
from esacl.rng import derive, generator, keyed_integers
from esacl.streams.base import Examples
from esacl.types import Context, Replay, State


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """Which rows of a batch go to which places of a memory."""

    places: Tensor
    rows: Tensor


class Reservoir:
    """After n examples each of them is kept with probability capacity / n (Vitter's algorithm R, batched)."""

    def __init__(self, capacity: int, context: Context, keep_logits: bool = False) -> None:
        self.capacity = capacity
        self.seen = 0
        self.draws = {"replay": 0, "watch": 0}  # examples drawn so far, by purpose
        self._context = context
        self._keep_logits = keep_logits
        self._generator = generator(context.seed, "memory")
        self._generators = {"replay": self._generator, "watch": generator(context.seed, "memory watch")}
        self._keys = {name: derive(context.seed, f"augment {name}") for name in (*self.draws, "copy")}
        self._store: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    def add(self, raw: Tensor, y: Tensor, logits: Tensor | None = None) -> None:
        """Offer a batch."""
        plan = self.plan(len(y))
        self.store(plan, raw, y, None if logits is None else logits[plan.rows])

    def plan(self, count: int) -> StoragePlan:
        """Decide what is kept of a batch: a random slot for each example; the last one offered to a slot stays."""
        order = torch.arange(self.seen, self.seen + count)
        chance = torch.rand(count, generator=self._generator, dtype=torch.float64)
        slots = torch.where(order < self.capacity, order, (chance * (order + 1)).long())
        self.seen += count
        winner = torch.full((self.capacity + 1,), -1)  # the last place takes every example that is not kept
        winner.scatter_reduce_(0, slots.clamp(max=self.capacity), torch.arange(count), "amax")
        places = (winner[:-1] >= 0).nonzero().squeeze(1)
        device = self._context.device
        return StoragePlan(places.to(device), winner[places].to(device))

    def store(self, plan: StoragePlan, raw: Tensor, y: Tensor, logits: Tensor | None = None) -> None:
        """Keep what was planned of a batch; `logits` are those of the planned rows."""
        kept = {"x": raw[plan.rows], "y": y[plan.rows]}
        if self._keep_logits:
            assert logits is not None
            kept["logits"] = logits
        for name, values in kept.items():
            if name not in self._store:
                self._store[name] = values.new_zeros((self.capacity, *values.shape[1:]))
            own = self._store[name]
            if (own.dtype, own.shape[1:]) != (values.dtype, values.shape[1:]):  # of a file that was changed
                raise CheckpointError(
                    f"the restored memory holds {name} of {own.dtype} and {[*own.shape[1:]]}, but the stream has "
                    f"{values.dtype} and {[*values.shape[1:]]}. Use a file that esacl wrote for such data."
                )
            own[plan.places] = values

    def draw(self, count: int, purpose: str = "replay") -> Replay:
        """`count` examples at random (all, where there are fewer), without repetition, freshly augmented.

        Each purpose has numbers of its own: to "watch" the memory does not change what is replayed.
        """
        rows = torch.randperm(len(self), generator=self._generators[purpose])[:count].to(self._context.device)
        first = self.draws[purpose]
        number = torch.arange(first, first + len(rows), device=self._context.device)
        self.draws[purpose] = first + len(rows)
        if self._context.copies:
            number = rows * self._context.copies + keyed_integers(self._keys["copy"], number, self._context.copies)
        x = self._context.inputs.augmented(self._store["x"][rows], self._keys[purpose], number)
        logits = self._store["logits"][rows] if self._keep_logits else None
        return Replay(x, self._store["y"][rows], logits)

    def examples(self) -> Examples:
        """Everything it holds: stored images and labels, in main memory."""
        return Examples(self._store["x"][: len(self)].cpu(), self._store["y"][: len(self)].cpu())

    def state_dict(self) -> State:
        """Contents, counters and the state of its generator."""
        return {
            "seen": self.seen,
            "draws": dict(self.draws),
            "generators": {name: own.get_state() for name, own in self._generators.items()},
            "store": {name: value.clone() for name, value in self._store.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.seen, self.draws = state["seen"], dict(state["draws"])
        for name, own in self._generators.items():
            own.set_state(state["generators"][name].cpu())
        self._store = {name: value.clone().to(self._context.device) for name, value in state["store"].items()}
        if any(len(value) != self.capacity for value in self._store.values()):
            raise ValueError(f"the memory has room for {self.capacity} examples, but others are stored")
        if "y" in self._store and not self._store["y"].clamp(0, self._context.classes - 1).equal(self._store["y"]):
            raise ValueError(f"the memory holds labels that are not below {self._context.classes}")
