"""A table of a comparison, before it is written in some format: what it says, what stands out, how it was measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from esacl.paper import Measure, Reported, reported
from esacl.report.columns import ALL_FIGURES, CREDITED, FIGURES, NUMBERS, WITH_CREDITED, Column, Figure, columns
from esacl.report.groups import contests
from esacl.report.record import DOMAIN_IL, SETTING_NAMES, SETTINGS, RunRecord
from esacl.report.scale import scale_words
from esacl.report.switches import switched_off
from esacl.report.units import DASH, scale_for

Number = str | int | float | None
"""A value of a line for programs."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the comparison: its name, its finished runs, and how many there shall be."""

    label: str
    records: tuple[RunRecord, ...]
    wanted: int
    stream: str
    split: str
    stopped: int = 0  # runs that ended after their first task, at chance

    @property
    def seeds(self) -> str:
        """How many seeds its means are over, and how many were stopped."""
        there = str(len(self.records)) if len(self.records) == self.wanted else f"{len(self.records)} of {self.wanted}"
        return there + (f", {self.stopped} stopped" if self.stopped else "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a sheet."""

    text: str
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows that may be compared, in the order they were given."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str


def lines_of(records: Sequence[RunRecord]) -> list[Line]:
    """A line for each method with the same settings, over its seeds."""
    return [
        Line(group.label, group.records, len(group.records), contest.stream, contest.split)
        for contest in contests(records)
        for group in contest.groups
    ]


def sheets(lines: Sequence[Line], paper: bool = False, everything: bool = True) -> list[Sheet]:
    """A sheet for each stream and split; with the numbers of the paper, and all figures or those that matter most."""
    figures = ALL_FIGURES if everything else WITH_CREDITED if paper else FIGURES
    return [_sheet(members, paper, figures) for members in tables_of(lines)]


def every_seed(lines: Sequence[Line]) -> list[Sheet]:
    """Task-IL and Class-IL of each single run."""
    return [_seeds(members) for members in tables_of(lines)]


def numbers(lines: Sequence[Line], paper: bool = False) -> Iterator[list[Number]]:
    """The lines for programs: a head, then mean and standard deviation of everything, in plain units."""
    given = tuple(_PAPER_NUMBERS) if paper else ()
    named = [f"{name}{ending}" for name in NUMBERS for ending in ("", "_std")]
    yield ["stream", "split", "row", "seeds", *named, *(f"in_the_paper_{name}" for name in given)]
    for line in lines:
        spreads = [Figure("", name, "share", of).spread(line.records) for name, of in NUMBERS.items()]
        values = [value for found in spreads for value in ((found.mean, found.std) if found else (None, None))]
        beside = [_PAPER_NUMBERS[name](_reported(line, lines)) for name in given]
        yield [line.stream, line.split, line.label, len(line.records), *values, *beside]


_PAPER_NUMBERS: Mapping[str, Callable[[Reported], float | None]] = {
    "task_il": lambda said: said.task_il[0] if said.task_il else None,
    "class_il": lambda said: said.class_il[0] if said.class_il else None,
    "capacity": lambda said: said.capacity,
    "flops": lambda said: said.flops,
    "footprint_bytes": lambda said: said.footprint,
    "seconds": lambda said: said.seconds,
}
_BESIDE: Mapping[tuple[str, str], Callable[[Reported], Measure | None]] = {
    ("Accuracy", "Task-IL"): lambda said: said.task_il,
    ("Accuracy", "Class-IL"): lambda said: said.class_il,
    ("FLOPs", "credited"): lambda said: None if said.flops is None else (said.flops, None),
    ("FLOPs", "paper"): lambda said: None if said.flops is None else (said.flops, None),
    ("", "Capacity"): lambda said: None if said.capacity is None else (said.capacity, None),
    ("", "Footprint"): lambda said: None if said.footprint is None else (said.footprint, None),
    ("", "Time"): lambda said: None if said.seconds is None else (said.seconds, None),
}
"""Figures that the paper reports too, and where its number is."""


def tables_of(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines by what may be compared: stream, tasks, split; one without a run is with the first of its stream."""
    places: dict[tuple[str, str, int], list[Line]] = {}
    for line in lines:
        same = [place for place in places if place[:2] == (line.stream, line.split)]
        tasks = line.records[0].tasks if line.records else same[0][2] if same else 0
        if line.records and (line.stream, line.split, 0) in places:  # those before it had no run to tell the tasks
            places[line.stream, line.split, tasks] = places.pop((line.stream, line.split, 0))
        places.setdefault((line.stream, line.split, tasks), []).append(line)
    return list(places.values())


def title_of(lines: Sequence[Line]) -> str:
    """What a table is about."""
    tasks = next((f", {line.records[0].tasks} tasks" for line in lines if line.records), "")
    return f"{lines[0].stream}{tasks}, {lines[0].split} split"


def _sheet(lines: Sequence[Line], paper: bool, figures: Sequence[Figure]) -> Sheet:
    records = [record for line in lines for record in line.records]
    said = [_reported(line, lines) for line in lines] if paper else []
    head, body = ["row", "seeds"], [[Entry(line.label), Entry(line.seeds)] for line in lines]
    credited = any(record.flops.credited is not None for record in records)
    for column in columns(records, [figure for figure in figures if credited or figure is not CREDITED]):
        head.append(column.heading)
        best = column.best([line.records for line in lines if line.records and not line.records[0].joint])
        for entries, line in zip(body, lines):
            entries.append(_entry(column, line, best))
        beside = _BESIDE.get((column.figure.family, column.figure.name))
        if column.figure.kind == "flops" and credited != (column.figure is CREDITED):
            beside = None  # like beside like: the paper's number counts what it credits
        if beside is not None and any(beside(found) for found in said):
            _add_reported(head, body, column, [beside(found) for found in said])
    return Sheet(title_of(lines), tuple(head), tuple(map(tuple, body)), _caption(lines, paper))


def _entry(column: Column, line: Line, best: str | None) -> Entry:
    """The mean over the seeds, with its spread where it measures learning; cost is a plain mean."""
    found = column.figure.spread(line.records)
    if found is None:
        return Entry(DASH)
    learning = column.figure.family in ("Accuracy", "Forgetting")
    bold = column.scale(found.mean) == best and not line.records[0].joint
    return Entry(column.scale(found.mean, found.std if learning else None), bold)


def _add_reported(
    head: list[str], body: Sequence[list[Entry]], column: Column, values: Sequence[Measure | None]
) -> None:
    """The paper's numbers as a column beside the measured one, in a unit of their own."""
    scale = scale_for(column.figure.kind, [value[0] for value in values if value is not None])
    name = "FLOPs" if column.figure.kind == "flops" else column.figure.name
    head.append(f"{name} in the paper ({scale.unit})")
    for entries, value in zip(body, values):
        entries.append(Entry(DASH if value is None else scale(*value)))


def _reported(line: Line, lines: Sequence[Line]) -> Reported:
    """What the paper says of a line among others; of a variant that the paper does not have, nothing."""
    if not line.records:
        return Reported()
    record = line.records[0]
    about = (record.method, record.stream, record.sparsity)
    off = [switch.key for switch in switched_off(record)]
    if len(off) > 1:
        return Reported()
    others = [each.records[0] for each in lines if each.records]
    same = [other for other in others if (other.method, other.stream, other.sparsity) == about]
    return reported(
        *about, without="".join(off), beside=[switch.key for other in same for switch in switched_off(other)]
    )


def _caption(lines: Sequence[Line], paper: bool) -> str:
    joint = [line.label for line in lines if line.records and line.records[0].joint]
    apart = f" but {', '.join(joint)} (all tasks at once)" if joint else ""
    told = [f"Mean ± sample standard deviation over the seeds; cost is the mean. Bold: the best of all{apart}."]
    return " ".join([*told, *scale_words([(line.label, line.records) for line in lines if line.records], paper)])


def _seeds(lines: Sequence[Line]) -> Sheet:
    share = scale_for("share", [])
    seeds = sorted({record.seed for line in lines for record in line.records})

    one = any(record.same_classes for line in lines for record in line.records)
    shown = SETTINGS[:1] if one else SETTINGS

    def scores(line: Line, seed: int) -> str:
        found = [record.accuracy for record in line.records if record.seed == seed]
        return " / ".join(share(found[0].of(setting)) for setting in shown) if found else DASH

    rows = [(Entry(line.label), *(Entry(scores(line, seed)) for seed in seeds)) for line in lines]
    both = DOMAIN_IL if len(shown) == 1 else " / ".join(SETTING_NAMES[setting] for setting in SETTINGS)
    caption = f"{both} (%) of each seed."
    return Sheet(title_of(lines), ("seed", *map(str, seeds)), tuple(rows), caption)
