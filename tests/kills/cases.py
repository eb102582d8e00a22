"""Cases: a setup, a way to train it, and the moments at which it is killed; drawn from a seed, one by one."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tests.kills.bits import Bits, differences
from tests.kills.fronts import FRONTS, Classifier, Front, Processes, Run
from tests.kills.moments import Moment, killed
from tests.kills.setups import SETUPS, Setup

SHARES = {
    "run": 52,
    "processes, first": 4,
    "processes, second": 4,
    "grid, local": 2,
    "grid, client": 12,
    "grid, worker": 12,
    "classifier": 14,
}
"""Cases in a hundred; those that start Python anew are rarer, as they take seconds."""

PATIENCE = 240
"""Seconds after which a process hangs."""


class Broken(Exception):
    """Training did not go on, or not to the same bits."""


@dataclass(frozen=True)
class Case:
    """What is trained how. The moments are drawn when it is known how many steps and writes there are."""

    number: int
    setup: Setup
    front: type[Front]
    seed: str

    def moments(self, counts: Mapping[str, int], seconds: float) -> list[Moment]:
        """One kill, or two; at a write, or in or after a step."""
        draw = random.Random(self.seed)
        found = []
        for _ in range(draw.choice((1, 1, 2))):
            kind = draw.choice(self.front.kinds)
            last = self.front.writes or counts["write"] if kind == "write" else counts["step"]
            delay = draw.choice((0.0, draw.random() * seconds / counts["step"])) if kind == "step" else 0.0
            found.append(Moment(kind, draw.randint(1, last), round(delay, 4)))
        return found


def draw_case(seed: int, number: int) -> Case:
    """The case of that number: every setup in turn, in an order of the seed's."""
    order = list(SETUPS.values())
    random.Random(seed).shuffle(order)
    setup = order[number % len(order)]
    allowed = {name: share for name, share in SHARES.items() if setup.classifier or FRONTS[name] is not Classifier}
    name = random.Random(f"{seed} {number} front").choices([*allowed], [*allowed.values()])[0]
    return Case(number, setup, FRONTS[name], f"{seed} {number} moments")


@dataclass
class Reference:
    """Training that nobody killed."""

    bits: Bits
    counts: dict[str, int]
    seconds: float


@dataclass
class Killer:
    """Tries cases in a folder; what nobody killed is trained once for all cases that share it."""

    folder: Path
    references: dict[tuple[str, type[Front]], Reference] = field(default_factory=dict)

    def reference(self, case: Case) -> Reference:
        """A grid trains to the bits of a run; several processes and classifiers have bits of their own."""
        kind = next((kind for kind in (Processes, Classifier) if issubclass(case.front, kind)), Run)
        key = case.setup.name, kind
        if key not in self.references:
            front = kind(case.setup, self.folder / f"reference {kind.__name__} {case.setup.name}")
            began = monotonic()
            finish(front)
            self.references[key] = Reference(front.bits(), front.counts(), monotonic() - began)
        return self.references[key]

    def attempt(self, case: Case) -> tuple[list[Moment], int]:
        """Kill at every moment, go on to the end and compare: the moments, and how many kills there were."""
        reference = self.reference(case)
        moments = case.moments(reference.counts, reference.seconds)
        front = case.front(case.setup, self.folder / f"case {case.number}")
        for moment in moments:
            code = joined(front, moment)
            if code not in front.allowed:
                raise Broken(f"at {moment} a process ended with {code}: {_end(front)}")
        finish(front)
        if different := differences(reference.bits, front.bits()):
            shown = ", ".join(different[:3]) + (f" and {len(different) - 3} more" if len(different) > 3 else "")
            raise Broken(f"after {' and '.join(map(str, moments))} these differ: {shown}")
        if not killed(front.diary):
            raise Broken(f"nobody was killed at {' and '.join(map(str, moments))}")
        return moments, killed(front.diary)


def finish(front: Front) -> None:
    """Train to the end."""
    if code := joined(front, None):
        raise Broken(f"could not be finished, exit code {code}: {_end(front)}")


def joined(front: Front, moment: Moment | None) -> int:
    """How a process ended."""
    process = front.start(moment)
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise Broken(f"hung for {PATIENCE} s, to be killed at {moment}: {_end(front)}")
    code: int = process.exitcode
    return code


def _end(front: Front) -> str:
    """The last words."""
    return " | ".join(front.log().strip().splitlines()[-3:]) or "it said nothing"
