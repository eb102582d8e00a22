"""A table of rows, before it is written in some format: what it says, what stands out, how it was measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from esacl.paper import Measure, Reported, reported
from esacl.report.ablations import switched_off
from esacl.report.metrics import EVERYTHING, MAIN, METRICS, WITH_CREDITED, Column, columns
from esacl.report.record import DOMAIN_IL, SCENARIO_NAMES, SETTINGS, shown_settings
from esacl.report.rows import Row, records_of, tables_of, title_of
from esacl.report.scale import scale_words
from esacl.report.units import DASH, PERCENT, unit_for

Number = str | int | float | None
"""A value of a line for programs."""

_FIRST = (
    "task_il",
    "class_il",
    "forgetting_class_il",
    "seconds_total",
    "flops_executed",
    "capacity",
    "forgetting_task_il",
    "flops_paper",
    "flops_sparse",
)
"""What a narrow terminal has room for, the first of them first."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a table."""

    text: str
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that may be compared, in the order they were given."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""
    first: tuple[int, ...] = ()  # columns that a terminal shows first, where it may leave out the others


def tables(rows: Sequence[Row], paper: bool = False, everything: bool = True) -> list[Table]:
    """A table for each stream and split; with the numbers of the paper, and all metrics or those that matter most."""
    keys = EVERYTHING if everything else WITH_CREDITED if paper else MAIN
    return [_table(members, paper, keys) for members in tables_of(rows)]


def seed_tables(rows: Sequence[Row]) -> list[Table]:
    """Task-IL and Class-IL of each single run."""
    return [_seeds(members) for members in tables_of(rows)]


def run_tables(rows: Sequence[Row]) -> list[Table]:
    """Every run in a line of its own, then the mean of each row that has several; a narrow terminal shows less."""
    return [_runs(members) for members in tables_of(rows)]


def numbers(rows: Sequence[Row], paper: bool = False) -> Iterator[list[Number]]:
    """The rows for programs: a head, then mean and standard deviation of everything, in plain units."""
    given = tuple(_PAPER_NUMBERS) if paper else ()
    named = [f"{key}{ending}" for key in METRICS for ending in ("", "_std")]
    yield ["stream", "split", "row", "seeds", *named, *(f"in_the_paper_{name}" for name in given)]
    for row in rows:
        spreads = [metric.spread(row.records) for metric in METRICS.values()]
        values = [value for found in spreads for value in ((found.mean, found.std) if found else (None, None))]
        beside = [value[0] if (value := _PAPER_NUMBERS[name](_reported(row, rows))) else None for name in given]
        yield [row.stream, row.split, row.label, len(row.records), *values, *beside]


def _plain(value: float | None) -> Measure | None:
    return None if value is None else (value, None)


_PAPER_NUMBERS: Mapping[str, Callable[[Reported], Measure | None]] = {
    "task_il": lambda said: said.task_il,
    "class_il": lambda said: said.class_il,
    "capacity": lambda said: _plain(said.capacity),
    "flops": lambda said: _plain(said.flops),
    "footprint_bytes": lambda said: _plain(said.footprint),
    "seconds": lambda said: _plain(said.seconds),
}
"""What the paper reports, by the name that programs find it under."""

_BESIDE = {
    **{key: key for key in ("task_il", "class_il", "capacity", "footprint_bytes")},
    "flops_credited": "flops",
    "flops_paper": "flops",
    "seconds_total": "seconds",
}
"""Metrics that the paper reports too."""


def _table(rows: Sequence[Row], paper: bool, keys: Sequence[str]) -> Table:
    records = records_of(rows)
    said = [_reported(row, rows) for row in rows] if paper else []
    head, body = ["row", "seeds"], [[Entry(row.label), Entry(row.seeds)] for row in rows]
    credited = any(record.flops.credited is not None for record in records)
    like = "flops_credited" if credited else "flops_paper"  # the paper's number counts what it credits
    for column in columns(records, [key for key in keys if credited or key != "flops_credited"]):
        key = column.metric.key
        head.append(column.heading)
        _add(body, _cells(column, rows))
        if key in _BESIDE and (column.metric.kind != "flops" or key == like):
            beside = [_PAPER_NUMBERS[_BESIDE[key]](found) for found in said]
            unit = unit_for(column.metric.kind, [value[0] for value in beside if value])
            if any(beside):
                name = "FLOPs" if column.metric.kind == "flops" else column.name
                head.append(f"{name} in the paper ({unit.name})")
                _add(body, [Entry(unit(*value) if value else DASH) for value in beside])
    return Table(title_of(rows), tuple(head), tuple(map(tuple, body)), _caption(rows, paper))


def _add(body: Sequence[list[Entry]], column: Sequence[Entry]) -> None:
    for cells, cell in zip(body, column, strict=True):
        cells.append(cell)


def _cells(column: Column, rows: Sequence[Row]) -> list[Entry]:
    """The mean of each row, the best in bold."""
    best, means = column.best(rows), [column.mean(row.records) for row in rows]
    return [Entry(mean, mean.partition(" ")[0] == best and not row.joint) for mean, row in zip(means, rows)]


def _reported(row: Row, rows: Sequence[Row]) -> Reported:
    """What the paper says of a row among others; of a variant that the paper does not have, nothing."""
    if not row.records:
        return Reported()
    record = row.records[0]
    about = (record.method, record.stream, record.sparsity)
    off = [switch.key for switch in switched_off(record)]
    if len(off) > 1:
        return Reported()
    others = [each.records[0] for each in rows if each.records]
    same = [other for other in others if (other.method, other.stream, other.sparsity) == about]
    return reported(
        *about, without="".join(off), beside=[switch.key for other in same for switch in switched_off(other)]
    )


def _caption(rows: Sequence[Row], paper: bool) -> str:
    joint = [row.label for row in rows if row.joint]
    apart = f" but {', '.join(joint)} (all tasks at once)" if joint else ""
    told = [f"Mean ± sample standard deviation over the seeds; cost is the mean. Bold: the best of all{apart}."]
    return " ".join([*told, *scale_words([(row.label, row.records) for row in rows if row.records], paper)])


def _seeds(rows: Sequence[Row]) -> Table:
    records = records_of(rows)
    seeds, shown = sorted({record.seed for record in records}), shown_settings(records)

    def scores(row: Row, seed: int) -> str:
        found = [record.accuracy for record in row.records if record.seed == seed]
        return " / ".join(PERCENT(found[0].of(setting)) for setting in shown) if found else DASH

    body = [(Entry(row.label), *(Entry(scores(row, seed)) for seed in seeds)) for row in rows]
    both = DOMAIN_IL if len(shown) == 1 else " / ".join(SCENARIO_NAMES[setting] for setting in SETTINGS)
    return Table(title_of(rows), ("seed", *map(str, seeds)), tuple(body), f"{both} (%) of each seed.")


def _runs(rows: Sequence[Row]) -> Table:
    shown, lines = columns(records_of(rows)), []
    for row in rows:
        each = [(row.label, str(record.seed), *(column.cell(record) for column in shown)) for record in row.records]
        lines += [tuple(map(Entry, texts)) for texts in each]
        if len(row.records) > 1:
            means = (column.mean(row.records) for column in shown)
            lines.append(tuple(Entry(text, bold=True) for text in (row.label, "mean", *means)))
    keys = [column.metric.key for column in shown]
    first = (1, *(2 + keys.index(key) for key in _FIRST if key in keys))
    return Table(title_of(rows), ("method", "seed", *(column.heading for column in shown)), tuple(lines), first=first)
