"""Many cases, spread over all kinds, and a table of what came of them."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.faults.case import Kind
from tests.faults.engine import Laboratory, Verdict

SPAN = 1_000_000  # seeds of cases of one campaign


@dataclass(slots=True)
class Tally:
    """What came of the cases so far."""

    refused: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    failures: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict, seconds: float) -> None:
        """Count one more."""
        done = verdict.outcome.code == 0 or verdict.outcome.stopped is not None
        (self.answered if done else self.refused)[verdict.kind] += 1
        self.seconds[verdict.kind] += seconds
        if verdict.problems:
            self.failures.append(verdict)

    def table(self) -> str:
        """One line for each kind."""
        failed = Counter(verdict.kind for verdict in self.failures)
        lines = [f"{'kind':14}{'cases':>8}{'refused':>9}{'answered':>10}{'failed':>8}{'ms each':>9}"]
        names = sorted({*self.refused, *self.answered})
        for name in names:
            count = self.refused[name] + self.answered[name]
            each = 1000 * self.seconds[name] / count
            lines.append(f"{name:14}{count:8}{self.refused[name]:9}{self.answered[name]:10}{failed[name]:8}{each:9.0f}")
        sums = (
            self.refused.total() + self.answered.total(),
            self.refused.total(),
            self.answered.total(),
            failed.total(),
        )
        return "\n".join([*lines, "{:14}{:8}{:9}{:10}{:8}".format("all", *sums)])


def plan(kinds: Mapping[str, Kind], cases: int, seed: int) -> Iterator[tuple[Kind, int]]:
    """Kinds in turn, as often as their shares say, each with seeds of its own."""
    round_ = [kind for kind in kinds.values() for _ in range(kind.share)]
    for number in range(cases):
        yield round_[number % len(round_)], seed * SPAN + number


def campaign(
    lab: Laboratory,
    kinds: Mapping[str, Kind],
    cases: int,
    seed: int,
    tell: Callable[[int, int, Tally], None] = lambda number, cases, tally: None,
) -> Tally:
    """Try so many cases; `tell` is called after each."""
    tally = Tally()
    for number, (kind, own) in enumerate(plan(kinds, cases, seed), 1):
        began = time.perf_counter()
        tally.add(lab.attempt(kind, own), time.perf_counter() - began)
        tell(number, cases, tally)
    return tally
