"""What is told of a grid while it runs; whoever iterates over it decides what to do with that."""

from dataclasses import dataclass

from esacl.grid.plan import Cell


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A run is this far."""

    cell: Cell
    share: float
    words: str


@dataclass(frozen=True, slots=True)
class RunNote:
    """Something that people should know about how a run goes on."""

    cell: Cell
    text: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run is whole, here."""

    cell: Cell


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run cannot be finished; the others go on."""

    cell: Cell
    reason: str
    diverged: bool = False  # nothing is broken: its settings do not train


@dataclass(frozen=True, slots=True)
class RunStopped:
    """A run has learnt nothing from its first task and is not trained any further."""

    cell: Cell
    reason: str


GridEvent = RunProgress | RunNote | RunFinished | RunFailed | RunStopped
ENDS = RunFinished | RunFailed | RunStopped
"""Events after which a run is not heard of again."""


def ended(cell: Cell) -> RunFinished | RunStopped:
    """The end of a run that is not trained any further."""
    reason = cell.stopped()
    return RunFinished(cell) if reason is None else RunStopped(cell, reason)
