"""When to kill: counted in steps of training and in writes to the disk, inside the process that makes them."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any, Literal

Kind = Literal["step", "write"]

FSYNC = os.fsync


@dataclass(frozen=True, slots=True)
class Moment:
    """Just before the n-th write, or so many seconds after the n-th step."""

    kind: Kind
    number: int
    delay: float = 0.0

    def __str__(self) -> str:
        later = f" + {1000 * self.delay:.0f} ms" if self.delay else ""
        return f"{self.kind} {self.number}{later}"


def strike(victim: int, diary: Path) -> None:
    """Note the kill, then kill."""
    with diary.open("ab", buffering=0) as file:
        file.write(b"%d\n" % victim)
    os.kill(victim, signal.SIGKILL)


def killed(diary: Path) -> int:
    """How often somebody was killed."""
    return len(diary.read_bytes().splitlines()) if diary.exists() else 0


def watch(moment: Moment | None = None, blow: Callable[[], None] | None = None) -> Counter[str]:
    """Count steps and writes of this process from now on, and call `blow` when the moment has come.

    A moment that it was waiting for before is forgotten.
    """
    from esacl.training import trainer
    from esacl.training.step import train_step

    counts: Counter[str] = Counter()

    def passed(kind: Kind) -> None:
        counts[kind] += 1
        if blow is not None and moment is not None and (kind, counts[kind]) == (moment.kind, moment.number):
            Timer(moment.delay, blow).start() if moment.delay else blow()

    def counted_write(descriptor: int) -> None:
        passed("write")
        FSYNC(descriptor)

    def counted_step(*arguments: Any) -> Any:
        trace = train_step(*arguments)
        passed("step")
        return trace

    os.fsync, trainer.train_step = counted_write, counted_step
    return counts
