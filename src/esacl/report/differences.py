"""Rows against one of them, seed by seed: mean difference, its interval, and a mark where the interval supports it."""

from collections.abc import Iterator, Sequence

from esacl.errors import ConfigError, unknown_name
from esacl.metrics.seeds import ENOUGH, LEVEL, Difference, paired_difference
from esacl.report.metrics import LEARNING, METRICS, Metric, columns
from esacl.report.rows import Row, records_of, tables_of, title_of
from esacl.report.table import Entry, Number, Table
from esacl.report.units import DASH, PERCENT

MARK = "†"  # an asterisk means something else in Markdown


def difference(row: Row, other: Row, metric: Metric) -> Difference | None:
    """The metric of a row less that of another, over the seeds that both have; None where there is no pair."""
    theirs = {record.seed: metric.of(record) for record in other.records}
    pairs = [(metric.of(record), theirs.get(record.seed)) for record in row.records]
    return paired_difference([mine - yours for mine, yours in pairs if mine is not None and yours is not None])


def chosen_row(rows: Sequence[Row], name: str) -> Row | None:
    """The row of that name among rows that may be compared: its whole label, or what only its label begins with."""
    exact = [row for row in rows if row.label == name]
    found = exact or [row for row in rows if row.label.startswith((f"{name}, ", f"{name} ("))]
    if len(found) > 1:
        raise ConfigError(
            f"row {name!r} to compare with is one of several: {', '.join(repr(row.label) for row in found)}. "
            f"Write one of them out."
        )
    return found[0] if found else None


def first_dense(rows: Sequence[Row]) -> Row | None:
    """The first row that is dense and learns task after task."""
    return next((row for row in rows if row.records and not row.joint and row.records[0].density == 1), None)


def differences(rows: Sequence[Row], against: str) -> list[Table]:
    """A table for each stream and split that has the row."""
    check_row(rows, against)
    found = [difference_table(members, against) for members in tables_of(rows)]
    return [table for table in found if table is not None]


def difference_table(rows: Sequence[Row], against: str | None = None) -> Table | None:
    """Rows that may be compared against one of them, by name or the first dense one; None where it is not there."""
    other = first_dense(rows) if against is None else chosen_row(rows, against)
    return None if other is None or len(rows) == 1 else _table(rows, other)


def check_row(rows: Sequence[Row], against: str) -> None:
    """Refuse a name that no row has."""
    if all(chosen_row(members, against) is None for members in tables_of(rows)):
        raise unknown_name("row to compare with", against, [row.label for row in rows])


def difference_numbers(rows: Sequence[Row], against: str) -> Iterator[list[Number]]:
    """For programs: a head, then for each row the mean difference, the ends of its interval and the seeds."""
    check_row(rows, against)
    yield ["against", *(f"{key}_minus_row{end}" for key in LEARNING for end in ("", "_low", "_high", "_seeds"))]
    rivals = {id(row): chosen_row(members, against) for members in tables_of(rows) for row in members}
    for row in rows:
        other = rivals[id(row)]
        values: list[Number] = []
        for key in LEARNING:
            found = None if other is None or other is row else difference(row, other, METRICS[key])
            values += [None] * 4 if found is None else [found.mean, found.low, found.high, found.pairs]
        yield [None if other is None else other.label, *values]


def _table(rows: Sequence[Row], other: Row) -> Table:
    shown = columns(records_of(rows), LEARNING)
    body, counts = [], set()
    for row in rows:
        if row is not other:
            found = [difference(row, other, column.metric) for column in shown]
            pairs = {each.pairs for each in found if each is not None}
            counts |= pairs
            seeds = Entry(" or ".join(map(str, sorted(pairs))) or "0")
            body.append((Entry(row.label), seeds, *map(_entry, found)))
    title = f"{title_of(rows)}: difference from {other.label}"
    head = ("row", "common seeds", *(column.heading for column in shown))
    return Table(title, head, tuple(body), _caption(counts, other))


def _entry(found: Difference | None) -> Entry:
    """Mean difference ± half of its interval, marked where that excludes 0."""
    if found is None:
        return Entry(DASH)
    mean = PERCENT(found.mean)
    sign = "+" if found.mean > 0 and float(mean) > 0 else ""
    mark = MARK if found.supported else ""
    return Entry(f"{sign}{mean}{mark}" + ("" if found.half is None else f" ±{PERCENT(found.half)}"), found.supported)


def _caption(counts: set[int], other: Row) -> str:
    told = [
        f"Row less {other.label}, same seeds: mean ± half of the {LEVEL:.0%} interval (Student's t).",
        f"{MARK} and bold: the interval excludes 0; nothing is said of the others.",
    ]
    if 1 in counts:
        told.append("With one common seed there is no interval.")
    if counts and min(counts) < ENOUGH:
        told.append(f"Fewer than {ENOUGH} common seeds: too few to say that a claim holds.")
    return " ".join(told)
