"""Rows: the runs of one configuration over its seeds, and which rows may be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
class Row:
    """One configuration: its name, its finished runs, and how many there shall be."""

    label: str
    records: tuple[RunRecord, ...]
    wanted: int
    stream: str
    split: str
    stopped: int = 0  # runs that ended after their first task, at chance
    axes: Mapping[str, Any] = field(default_factory=dict)  # where on the axes of a grid it is

    @property
    def seeds(self) -> str:
        """How many seeds its means are over, and how many were stopped."""
        there = str(len(self.records)) if len(self.records) == self.wanted else f"{len(self.records)} of {self.wanted}"
        return there + (f", {self.stopped} stopped" if self.stopped else "")

    @property
    def joint(self) -> bool:
        """Whether its runs saw all tasks at once, so that it does not compete with the others."""
        return bool(self.records) and self.records[0].joint


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation."""

    mean: float
    std: float | None  # None for a single value


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


def rows_of(records: Sequence[RunRecord]) -> list[Row]:
    """A row for each method with the same settings, in the order given; those of one stream together, seeds sorted."""
    places: dict[tuple[str, int, str], list[RunRecord]] = {}
    for record in records:
        places.setdefault((record.stream, record.tasks, record.split), []).append(record)
    return [row for members in places.values() for row in _rows(members)]


def tables_of(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows by what may be compared: stream, tasks, split; one without a run is with the first of its stream."""
    places: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        same = [place for place in places if place[:2] == (row.stream, row.split)]
        tasks = row.records[0].tasks if row.records else same[0][2] if same else 0
        if row.records and (row.stream, row.split, 0) in places:  # those before it had no run to tell the tasks
            places[row.stream, row.split, tasks] = places.pop((row.stream, row.split, 0))
        places.setdefault((row.stream, row.split, tasks), []).append(row)
    return list(places.values())


def title_of(rows: Sequence[Row]) -> str:
    """What rows that may be compared have in common."""
    tasks = next((f", {row.records[0].tasks} tasks" for row in rows if row.records), "")
    return f"{rows[0].stream}{tasks}, {rows[0].split} split"


def records_of(rows: Sequence[Row]) -> list[RunRecord]:
    """Every run, row after row."""
    return [record for row in rows for record in row.records]


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


def settings_of(record: RunRecord) -> dict[str, str]:
    """What makes a run another experiment, by dotted name."""
    return {name: value for name, value in flatten(record.config).items() if name not in _NOT_A_SETTING}


def differing(twins: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of the settings in which these are not all alike.

    >>> differing([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1"}])
    ['b']
    """
    return sorted({name for twin in twins for name in twin if len({other.get(name) for other in twins}) > 1})


def told_apart(method: str, settings: Mapping[str, str], names: Sequence[str]) -> str:
    """A method with the settings of these names.

    >>> told_apart("er", {"objective.buffer": "50"}, ["objective.buffer", "update.lr"])
    'er (buffer 50, lr default)'
    """
    told = [f"{name.rpartition('.')[2]} {settings.get(name, 'default')}" for name in names]
    return method + (f" ({', '.join(told)})" if told else "")


def _rows(records: Sequence[RunRecord]) -> list[Row]:
    """Of runs on one stream; a label has the settings that tell a row apart from others of the same method."""
    alike: dict[tuple[Any, ...], list[RunRecord]] = {}
    for record in records:
        alike.setdefault((record.method, *sorted(settings_of(record).items())), []).append(record)
    members = [tuple(sorted(group, key=lambda record: record.seed)) for group in alike.values()]
    rows = []
    for group in members:
        first = group[0]
        names = differing([settings_of(other[0]) for other in members if other[0].method == first.method])
        label = told_apart(first.method, settings_of(first), names)
        rows.append(Row(label, group, len(group), first.stream, first.split))
    return rows


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    return clean(str(value))
