"""Held-out examples: a few of each class are never trained on, and tell after each task what is still known."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from esacl.documents import Count, Positive, as_record
from esacl.errors import InputError
from esacl.estimator.learner import Learner
from esacl.metrics.seeds import fell
from esacl.rng import generator
from esacl.streams.base import Examples
from esacl.types import State

ENOUGH = 10
"""Different examples that a class must have before any is held out."""

PER_CLASS = 20
BYTES = 64 * 2**20
"""The most that is kept: examples of a class, and bytes of all together."""

ENTRIES = 100
"""Tasks that the history remembers, the newest."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How many held-out examples were answered rightly after a task."""

    task: Positive
    examples: Count  # that it was learnt from
    right: tuple[tuple[Count, Count, Count], ...]  # column, right answers, examples
    lost: Count = 0  # examples of earlier classes that were right before this task and are wrong now
    won: Count = 0  # ... the other way round
    given: bool = False  # whether the examples were given, instead of held out of what is learnt

    def share(self, columns: set[int]) -> tuple[int, int]:
        """Right answers and examples of these classes."""
        rows = [row for row in self.right if row[0] in columns]
        return sum(row[1] for row in rows), sum(row[2] for row in rows)

    @property
    def fell(self) -> bool:
        """Whether earlier classes are answered worse than before the task, by more than chance."""
        return fell(self.lost, self.won)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What is held out of training, and what it has told."""

    examples: Examples | None = None
    history: tuple[Measured, ...] = ()

    def draw(self, task: Examples, new: set[int], share: float, seed: int, number: int) -> "tuple[Examples, HeldOut]":
        """What of a task is trained on, and what is held out from now on.

        Only classes that are new in this task give some: of others, examples may have been trained on before.
        """
        if self.examples is None and share == 0:
            return task, self
        marks, known = _marks(task.x[:]), set() if self.examples is None else set(_marks(self.examples.x[:]))
        chosen: list[int] = []
        for column in sorted(new) if share else ():
            first: dict[bytes, int] = {}
            for row in (task.y == column).nonzero().flatten().tolist():
                first.setdefault(marks[row], row)
            order = torch.randperm(len(first), generator=generator(seed, "held out", number, column)).tolist()
            wanted = min(int(share * len(first)), PER_CLASS) if len(first) >= ENOUGH else 0
            rows = list(first.values())
            chosen += [rows[place] for place in order[:wanted]]
        added = task.take(torch.tensor(sorted(chosen), dtype=torch.int64))
        out = known | set(_marks(added.x[:]))
        left = torch.tensor([row for row, mark in enumerate(marks) if mark not in out], dtype=torch.int64)
        if len(left) < 2:
            raise InputError(
                f"of {len(task)} examples, {len(task) - len(left)} are held out of training already, to tell how good "
                f"the model is. Give more examples, or start a new model with holdout=0."
            )
        return task.take(left), replace(self, examples=_trimmed(_joined(self.examples, added)))

    def measured(self, before: Learner | None, after: Learner, given: Examples | None, trained: int) -> "HeldOut":
        """The same with an entry for the task that was just learnt, on the examples given or on those held out."""
        held = self.examples if given is None else given
        rows: tuple[tuple[int, int, int], ...] = ()
        lost = won = 0
        if held is not None and len(held):
            right = after.answers(held.x[:]) == held.y
            columns = sorted(set(held.y.tolist()))
            rows = tuple((c, int(right[held.y == c].sum()), int((held.y == c).sum())) for c in columns)
            old = torch.tensor([before is not None and column in before.seen for column in held.y.tolist()])
            if before is not None and old.any():
                was = before.answers(held.x[old]) == held.y[old]
                lost, won = int((was & ~right[old]).sum()), int((~was & right[old]).sum())
        entry = Measured(len(after.history), trained, rows, lost, won, given is not None)
        return replace(self, history=(*self.history, entry)[-ENTRIES:])

    def state_dict(self) -> State:
        """Tensors and plain values."""
        held = self.examples
        return {
            "examples": None if held is None else {"x": held.x, "y": held.y},
            "history": [asdict(entry) for entry in self.history],
        }

    @staticmethod
    def from_state(state: Any, shape: tuple[int, int, int], stored: str, columns: int) -> "HeldOut":
        """Those of before, none in files of before; ValueError where they are not of that shape."""
        if state is None:
            return HeldOut()
        history = tuple(as_record(state["history"], list[Measured]))
        found = state["examples"]
        if found is None:
            return HeldOut(None, history)
        x, y = found["x"], found["y"]
        fits = tuple(x.shape[1:]) == shape and x.dtype == getattr(torch, stored) and y.dtype == torch.int64
        if not fits or x.ndim != 4 or y.shape != (len(x),) or not bool(((y >= 0) & (y < columns)).all()):
            raise ValueError(f"held-out examples of {tuple(x.shape)} for a model of {shape}")
        return HeldOut(Examples(x, y), history)


def _marks(x: Tensor) -> list[bytes]:
    """A digest of each example: equal for equal ones."""
    return [blake2b(each.contiguous().numpy().tobytes(), digest_size=16).digest() for each in x]


def _joined(one: Examples | None, other: Examples) -> Examples:
    return other if one is None else Examples.joined([one, other])


def _trimmed(held: Examples) -> Examples | None:
    """The first examples of each class, as many as there is room for; None where there is none at all."""
    if not len(held):
        return None
    columns = sorted(set(held.y.tolist()))
    size = held.x[0].nbytes
    most = max(1, min(PER_CLASS, BYTES // (size * len(columns))))
    kept = torch.cat([(held.y == column).nonzero().flatten()[:most] for column in columns])
    return held.take(kept.sort().values)


def told(history: Sequence[Measured], tasks: Sequence[Collection[int]], classes: Sequence[Any]) -> list[dict[str, Any]]:
    """The history in plain values; `tasks` are the columns of each, `classes` the labels by column."""
    found = []
    for entry in history:
        earlier = {column for own in tasks[: entry.task - 1] for column in own}
        right, count = entry.share(earlier)
        row = {
            "task": entry.task,
            "examples": entry.examples,
            "before": [right + entry.lost - entry.won, count],
            "old": [right, count],
            "new": [*entry.share(set(tasks[entry.task - 1]) - earlier)],
            "classes": {classes[column]: [good, held] for column, good, held in entry.right},
            "fell": entry.fell,
        }
        found.append(row)
    return found
