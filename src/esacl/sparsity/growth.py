"""How wide a growing network is: channels of the trunk, and of each task's branch."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from esacl.errors import ConfigError
from esacl.nets.connections import HEAD, IMAGE, Connection
from esacl.sparsity.quotas import kept_after
from esacl.types import UNKNOWN_TASKS

LANES = 8  # channels that a processor computes together
WHOLE = 1 << 20  # parts of a quota


@dataclass(frozen=True, slots=True)
class Growth:
    """Widths by group of units. `scale` and `slim` are the shares of the channels that branches and trunk may use."""

    layers: tuple[Connection, ...]
    sizes: Mapping[str, tuple[int, ...]]  # shapes of the weights
    stages: int  # of the trunk
    tasks: int
    quota: str
    ratio: float
    scale: float = 1.0
    slim: float = 1.0

    @property
    def units(self) -> dict[str, int]:
        """Channels that are stored, by group."""
        return {one.writes: self.sizes[one.weight][0] for one in self.layers if one.writes != HEAD}

    def trunk(self) -> dict[str, int]:
        """Channels of the trunk: the groups that its stages write."""
        inside = {one.writes for one in self.layers if one.stage < self.stages and one.writes != HEAD}
        whole = self.slim == 1
        return {g: units if whole else in_lanes(self.slim * units) for g, units in self.units.items() if g in inside}

    def branch(self, task: int) -> dict[str, int]:
        """Channels of a task's branch; a task beyond those planned gets as many as the last one planned."""
        tasks = self.tasks
        if tasks != UNKNOWN_TASKS:
            task = min(task, tasks - 1)
        before = kept_after(self.quota, WHOLE, task - 1, tasks, self.ratio) if task else 0
        share = (kept_after(self.quota, WHOLE, task, tasks, self.ratio) - before) / WHOLE
        least = {group: max(1, min(LANES, units // 16)) for group, units in self.units.items()}
        trunk = self.trunk()
        return {
            group: max(least[group] if tasks == UNKNOWN_TASKS else 1, in_lanes(self.scale * share * units))
            for group, units in self.units.items()
            if group not in trunk
        }

    def weights(self, widths: Mapping[str, int]) -> int:
        """Weights of the layers that write these groups, outside the head."""
        known = {**self.trunk(), **widths}
        total = 0
        for one in self.layers:
            if one.writes in widths:
                _, columns, *kernel = self.sizes[one.weight]
                read = columns if one.reads == IMAGE else one.columns(known[one.reads])
                total += widths[one.writes] * read * prod(kernel)
        return total

    def total(self) -> int:
        """Weights of the trunk and of all branches that are planned."""
        return self.weights(self.trunk()) + sum(self.weights(self.branch(task)) for task in self.planned())

    def planned(self) -> range:
        """Tasks whose branches are counted on: all of them, or where nobody knows, those that there is room for."""
        if self.tasks != UNKNOWN_TASKS:
            return range(self.tasks)
        count, left = 0, dict(self.units)
        while True:
            left = {group: left[group] - width for group, width in self.branch(count).items()}
            if min(left.values(), default=-1) < 0:
                return range(max(1, count))
            count += 1


def in_lanes(width: float) -> int:
    """Whole channels, at least one; in multiples of what a processor computes together where there are enough.

    >>> [in_lanes(width) for width in (0.3, 12.8, 25.6, 64)]
    [1, 12, 24, 64]
    """
    whole = max(1, int(width + 1e-6))
    return whole if whole < 2 * LANES else whole // LANES * LANES


def within(growth: Growth, budget: int, slim: float | None) -> Growth:
    """The widest growth of at most so many weights; a trunk whose width was not given takes half of them at most."""
    shares = [step / 256 for step in range(257)]
    if slim is None:
        fit = bisect_right(shares, budget // 2, key=lambda share: growth.weights(replace(growth, slim=share).trunk()))
        slim = shares[max(0, fit - 1)]
    growth = replace(growth, slim=slim)
    fit = bisect_right(shares, budget, key=lambda share: replace(growth, scale=share).total())
    if fit == 0:
        raise ConfigError(
            "{sparsity.level} leaves {budget} weights, but with a branch of one channel for each of {tasks} tasks it "
            "takes {least}.",
            remedy="Use a smaller {sparsity.level} or a larger {net.width}.",
            budget=budget,
            tasks=len(growth.planned()),
            least=replace(growth, scale=0.0).total(),
        )
    return replace(growth, scale=shares[fit - 1])
