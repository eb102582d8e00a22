"""Runs that belong together: seeds of the same settings, and methods on the same stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from esacl.report.record import RunRecord
from esacl.report.units import clean

# Where a run computes and finds its data, and what else it measures, does not make it another experiment.
_NOT_A_SETTING = {
    "seed",
    "machine.device",
    "machine.threads",
    "machine.processes",
    "stream.data_dir",
    "train.unpruned",
}


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation."""

    mean: float
    std: float | None  # None for a single value


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ only in their seed."""

    label: str
    records: tuple[RunRecord, ...]


@dataclass(frozen=True, slots=True)
class Contest:
    """Groups that may be compared: same stream, same tasks, same split."""

    stream: str
    tasks: int
    split: str
    groups: tuple[Group, ...]

    @property
    def records(self) -> list[RunRecord]:
        """Every run, group after group."""
        return [record for group in self.groups for record in group.records]


def spread(values: Sequence[float | None]) -> Spread | None:
    """Mean ± sample standard deviation; None as soon as one value is not known.

    >>> spread([1.0, 2.0, 3.0])
    Spread(mean=2.0, std=1.0)
    >>> spread([0.5]), spread([0.5, None])
    (Spread(mean=0.5, std=None), None)
    """
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Spread(fmean(known), stdev(known) if len(known) > 1 else None)


def bars_told(found: Sequence[Spread]) -> str:
    """What the bars of a plot are; with one seed there are none.

    >>> bars_told([Spread(0.5, 0.1), Spread(0.5, None)]), bars_told([Spread(0.5, None)])
    ('Bars are ± one standard deviation over the seeds.', 'One seed each, so there are no bars.')
    """
    several = any(each.std is not None for each in found)
    return "Bars are ± one standard deviation over the seeds." if several else "One seed each, so there are no bars."


def contests(records: Sequence[RunRecord]) -> list[Contest]:
    """The runs by stream, then by method and settings, in the order they were given; seeds in ascending order."""
    places: dict[tuple[str, int, str], list[RunRecord]] = {}
    for record in records:
        places.setdefault((record.stream, record.tasks, record.split), []).append(record)
    return [Contest(*place, tuple(_groups(members))) for place, members in places.items()]


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as `part.key: value`, as text.

    >>> flatten({"seed": 0, "train": {"epochs": 5, "shuffle": True}})
    {'seed': '0', 'train.epochs': '5', 'train.shuffle': 'true'}
    """
    flat: dict[str, str] = {}
    for key, value in tables.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[clean(prefix + key)] = _as_text(value)
    return flat


def _groups(records: Sequence[RunRecord]) -> list[Group]:
    kinds: dict[tuple[Any, ...], list[RunRecord]] = {}
    for record in records:
        kinds.setdefault((record.method, *sorted(settings_of(record).items())), []).append(record)
    members = [tuple(sorted(group, key=lambda record: record.seed)) for group in kinds.values()]
    return [Group(_label(group[0], [other[0] for other in members]), group) for group in members]


def _label(record: RunRecord, everyone: Sequence[RunRecord]) -> str:
    """The method, and the settings that tell it apart from others of the same method."""
    names = differing([settings_of(other) for other in everyone if other.method == record.method])
    mine = settings_of(record)
    told = [f"{name.rpartition('.')[2]} {mine.get(name, 'default')}" for name in names]
    return record.method + (f" ({', '.join(told)})" if told else "")


def differing(twins: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of the settings in which these are not all alike.

    >>> differing([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1"}])
    ['b']
    """
    return sorted({name for twin in twins for name in twin if len({other.get(name) for other in twins}) > 1})


def settings_of(record: RunRecord) -> dict[str, str]:
    """What makes a run another experiment, by dotted name."""
    return {name: value for name, value in flatten(record.config).items() if name not in _NOT_A_SETTING}


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    return clean(str(value))
