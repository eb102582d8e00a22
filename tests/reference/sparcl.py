"""Naïve twin of SparCL: masks as sets of places, answers as lists, and Python's sort."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf


def fittest(live: set[int], scores: Sequence[float], count: int) -> set[int]:
    """The places of `live` with the largest scores; among equal ones, those that come first."""
    return set(sorted(live, key=lambda place: (-scores[place], place))[:count])


def grown(live: set[int], scores: Sequence[float], count: int) -> set[int]:
    """The places of `live`, and of the others those with the largest scores, `count` together."""
    dead = set(range(len(scores))) - live
    return live | fittest(dead, scores, count - len(live))


class Masks:
    """The masks of one layer, by either rule; weights that are not live become 0."""

    def __init__(self, weights: Sequence[float], rule: str, count: int, extra: int) -> None:
        self.rule, self.count, self.extra = rule, count, extra
        self.weights = list(weights)
        self.slopes = [0.0] * len(weights)
        self.live = set(range(len(weights)))
        self._keep([abs(value) for value in weights], count)

    def _keep(self, scores: Sequence[float], count: int) -> None:
        self.live = fittest(self.live, scores, count)
        self.weights = [value if place in self.live else 0.0 for place, value in enumerate(self.weights)]

    def _importance(self) -> list[float]:
        return [abs(weight) + slope for weight, slope in zip(self.weights, self.slopes)]

    def epoch(self, task: int, epoch: int, epochs: int) -> tuple[int, int] | None:
        """Live weights after dropping and after growing, in the task's epoch; None where nothing changes."""
        every = max(1, round(epochs / 10))
        if epoch == 0:
            grows = self.rule == "code" or task > 0
            return (self.count, min(self.count + self.extra, len(self.weights))) if grows else None
        if epoch >= 0.9 * epochs:
            return (self.count, self.count) if self.rule == "code" else None
        if epoch % every or epoch > 0.8 * epochs:
            return None
        after = self.count if self.rule == "code" else len(self.live)
        return after - self.extra, after

    def change(self, counts: tuple[int, int] | None, promise: Sequence[float]) -> None:
        """Drop the least important, then let the most promising come to life."""
        if counts is not None:
            self._keep(self._importance(), counts[0])
            self.live = grown(self.live, promise, counts[1])

    def end(self) -> None:
        """The task ends."""
        self._keep(self._importance(), self.count)
        self.slopes = [0.0] * len(self.slopes)


def masked_step(
    weights: Sequence[float], gradients: Sequence[float], live: Sequence[bool], moving: Sequence[bool], rate: float
) -> list[float]:
    """A step of plain SGD along gradients that are 0 where nothing may move; weights that are not live are 0."""
    masked = [slope if moves else 0.0 for slope, moves in zip(gradients, moving)]
    stepped = [weight - rate * slope for weight, slope in zip(weights, masked)]
    return [value if lives else 0.0 for value, lives in zip(stepped, live)]


class Answers:
    """Right and wrong answers of each example since examples were last removed, and the last one before that."""

    def __init__(self) -> None:
        self.since: dict[int, list[bool]] = {}
        self.before: dict[int, bool] = {}

    def see(self, answers: Mapping[int, bool]) -> None:
        """An epoch's answers."""
        for example, right in answers.items():
            self.since.setdefault(example, []).append(right)

    def score(self, example: int) -> float:
        """How often it was forgotten."""
        history = self.since.get(example, [])
        if not any(history):
            return inf
        whole = [self.before.get(example, False), *history]
        return sum(one and not other for one, other in pairwise(whole))

    def removed(self) -> None:
        """Count from here on."""
        for example, history in self.since.items():
            self.before[example] = history[-1]
        self.since = {}


def removed_by(epoch: int, epochs: int, examples: int, share: float) -> int:
    """Examples that are gone when an epoch starts."""
    portions = len([tenth for tenth in (1, 2, 3, 4) if epoch >= tenth * epochs / 10])
    return round(share * examples * portions / 4) if epoch > 0 else 0
