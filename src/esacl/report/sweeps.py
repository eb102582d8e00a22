"""Settings that a grid moves while all others stay: sparsity, rho, the share of data, the learning rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from esacl.report.rows import Row, differing, settings_of, told_apart


@dataclass(frozen=True, slots=True)
class Sweep:
    """One setting, by its dotted name."""

    path: str
    name: str
    slug: str
    percent: bool = False
    neutral: float | None = None  # value at which the other options of its part mean nothing
    rest: bool = False  # whether what is shown is what the setting leaves of a whole

    @property
    def slot(self) -> str:
        """The part it belongs to."""
        return self.path.partition(".")[0]

    def shown(self, settings: Mapping[str, str]) -> float:
        """Where a row stands along it."""
        value = float(settings[self.path])
        return round(1 - value, 9) if self.rest else value


SWEEPS = (
    Sweep("sparsity.level", "sparsity", "sparsity", percent=True),
    Sweep("gradient.rho", "ρ, the length of the ascent", "rho", neutral=0.0),
    Sweep("selection.keep", "share of the data that is left out", "left-out", percent=True, neutral=1.0, rest=True),
    Sweep("selection.removed", "share of the data that is left out", "left-out", percent=True),
    Sweep("update.lr", "learning rate", "lr"),
)
"""Those of one name are of one plot: EsaCL keeps a share of each batch, SparCL removes one of the task."""


@dataclass(frozen=True, slots=True)
class Series:
    """Rows that differ in one setting alone, in ascending order of it."""

    label: str
    points: tuple[tuple[float, Row], ...]


def series(rows: Sequence[Row], sweep: Sweep) -> list[Series]:
    """What moves along a setting, with at least two values of it."""
    known = [(row, settings_of(row.records[0])) for row in rows if row.records]
    moved = [(row, settings) for row, settings in known if sweep.path in settings]
    groups: dict[tuple[str, ...], list[tuple[Row, Mapping[str, str]]]] = {}
    for row, settings in moved:
        if float(settings[sweep.path]) != sweep.neutral:
            groups.setdefault(_others(settings, sweep, whole=False), []).append((row, settings))
    for members in groups.values():
        rest = _others(members[0][1], sweep, whole=True)
        neutral = [other for other in moved if float(other[1][sweep.path]) == sweep.neutral]
        alike = [other for other in neutral if _others(other[1], sweep, whole=True) == rest]
        members += sorted(alike, key=lambda other: len(differing([other[1], members[0][1]])))[:1]
    swept = [members for members in groups.values() if len({settings[sweep.path] for _, settings in members}) > 1]
    return [_series(members, [other[0][1] for other in swept], sweep) for members in swept]


def _others(settings: Mapping[str, str], sweep: Sweep, whole: bool) -> tuple[str, ...]:
    """All other settings; without the whole part, where its options mean nothing."""
    kept = [name for name in sorted(settings) if name != sweep.path]
    kept = [name for name in kept if not whole or not name.startswith(f"{sweep.slot}.")]
    return tuple(f"{name} {settings[name]}" for name in kept)


def _series(
    members: Sequence[tuple[Row, Mapping[str, str]]], everyone: Sequence[Mapping[str, str]], sweep: Sweep
) -> Series:
    mine = members[0][1]
    twins = [other for other in everyone if other["method"] == mine["method"]]
    names = [name for name in differing(twins) if name != sweep.path]
    points = sorted(((sweep.shown(settings), row) for row, settings in members), key=lambda point: point[0])
    return Series(told_apart(mine["method"], mine, names), tuple(points))
