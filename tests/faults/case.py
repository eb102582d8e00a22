"""What a case is: a place of its own, what was damaged there, and what is then done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The process that an action finds itself in."""

    variables: Mapping[str, str | None] = field(default_factory=dict)  # of the environment; None: not there
    encoding: str = "utf-8"  # of standard output and error
    stdout: str | None = "file"  # file, full (a full disk), pipe (nobody reads), None: closed
    stderr: str | None = "file"
    memory: int = 2 << 30  # bytes of address space beyond what the process has already
    handles: int | None = None  # files that may be open
    file_size: int | None = None  # bytes that a file may have: a full disk
    refuse_writes: tuple[int, int] | None = None  # errno, and how many changes of files succeed before it
    gone: bool = False  # the working directory was removed


@dataclass(frozen=True, slots=True)
class Case:
    """An action and what may come of it."""

    action: Callable[[], object]
    told: tuple[str, ...]  # what was damaged, and what is done
    quiet_codes: tuple[int, ...] = ()  # exit codes that need no line `error: ...`
    json: bool = False  # standard output is one document if the action succeeds
    same_as: str | None = None  # standard output that is right if the action succeeds, as damage must be noticed
    consents: bool = False  # names code itself, which may then run
    starts: bool = False  # may ask for further processes, or for the network: it is stopped there
    named: tuple[str, ...] = ()  # places that it may be told to write to: it is stopped there, wherever they are
    surroundings: Surroundings = Surroundings()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a case may write, `own`, and what it must not touch."""

    root: Path
    specimens: Path

    @property
    def own(self) -> Path:
        """The working directory of the case."""
        return self.root / "own"

    @property
    def outside(self) -> Path:
        """A folder that links and names may lead to, and that stays as it is."""
        return self.root / "outside"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of input: how it is damaged and used."""

    name: str
    prepare: Callable[[Random, Place], Case]
    share: int = 1  # of all cases, relative to the others
