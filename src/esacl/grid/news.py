"""What is told of a grid while it runs; whoever iterates over it decides what to do with that."""

from dataclasses import dataclass

from esacl.grid.plan import Cell


@dataclass(frozen=True, slots=True)
class Progressed:
    """A run is this far."""

    cell: Cell
    share: float
    words: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that people should know about how a run goes on."""

    cell: Cell
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A run is whole, here."""

    cell: Cell


@dataclass(frozen=True, slots=True)
class Failed:
    """A run cannot be finished; the others go on."""

    cell: Cell
    reason: str
    diverged: bool = False  # nothing is broken: its settings do not train


@dataclass(frozen=True, slots=True)
class Stopped:
    """A run has learnt nothing from its first task and is not trained any further."""

    cell: Cell
    reason: str


News = Progressed | Noted | Finished | Failed | Stopped
