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


def rivals(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows of that name among rows that may be compared: one, or one at each place of its axes.

    A name is a whole label, or what a label begins with.
    """
    exact = [row for row in rows if row.label == name]
    found = exact or [row for row in rows if row.label.startswith((f"{name}, ", f"{name} ("))]
    places = [[row.axes.get(axis) for axis in moved_axes(found)] for row in found]
    if any(place in places[:number] for number, place in enumerate(places)):
        raise ConfigError(
            f"row {name!r} to compare with is one of several: {', '.join(repr(row.label) for row in found)}. "
            f"Write one of them out."
        )
    return found


def moved_axes(rows: Sequence[Row]) -> list[str]:
    """The axes of a grid along which these rows differ."""
    names = dict.fromkeys(axis for row in rows for axis in row.axes)
    return [axis for axis in names if any(row.axes.get(axis) != rows[0].axes.get(axis) for row in rows)]


def rival_of(row: Row, found: Sequence[Row]) -> Row | None:
    """The one of these rows that is at the same axis values as a row; None where there is none."""
    axes = moved_axes(found)
    return next((other for other in found if all(_same(row, other, axis) for axis in axes)), None)


def _same(row: Row, other: Row, axis: str) -> bool:
    return axis in row.axes and row.axes[axis] == other.axes.get(axis)


def first_dense(rows: Sequence[Row]) -> Row | None:
    """The first row that is dense and learns task after task."""
    return next((row for row in rows if row.records and not row.joint and row.records[0].density == 1), None)


def differences(rows: Sequence[Row], against: str) -> list[Table]:
    """A table for each stream and split that has the row."""
    check_row(rows, against)
    found = [difference_table(members, against) for members in tables_of(rows)]
    return [table for table in found if table is not None]


def difference_table(rows: Sequence[Row], against: str | None = None) -> Table | None:
    """Rows that may be compared against one of them, by name or the first dense one; None where it is not there.

    A row that is several, along its axes, is compared with at the axis values of each row.
    """
    dense = first_dense(rows) if against is None else None
    found = [dense] if dense is not None else [] if against is None else rivals(rows, against)
    return _table(rows, found, against or found[0].label) if found and len(rows) > len(found) else None


def check_row(rows: Sequence[Row], against: str) -> None:
    """Refuse a name that no row has."""
    found = [rivals(members, against) for members in tables_of(rows)]
    if not any(found):
        names = {name for row in rows for name in (row.label, row.label.partition(", ")[0])}
        raise unknown_name("row to compare with", against, names)


def difference_numbers(rows: Sequence[Row], against: str) -> Iterator[list[Number]]:
    """For programs: a head, then for each row the mean difference, the ends of its interval and the seeds."""
    check_row(rows, against)
    yield ["against", *(f"{key}_minus_row{end}" for key in LEARNING for end in ("", "_low", "_high", "_seeds"))]
    others = {id(row): rival_of(row, rivals(members, against)) for members in tables_of(rows) for row in members}
    for row in rows:
        other = others[id(row)]
        values: list[Number] = []
        for key in LEARNING:
            found = None if other is None or other is row else difference(row, other, METRICS[key])
            values += [None] * 4 if found is None else [found.mean, found.low, found.high, found.pairs]
        yield [None if other is None else other.label, *values]


def _table(rows: Sequence[Row], found: Sequence[Row], name: str) -> Table:
    axes, shown = moved_axes(found), columns(records_of(rows), LEARNING)
    place = f"{name} at the same {' and '.join(axes)}" if axes else found[0].label
    body, counts, alone = [], set(), []
    for row in rows:
        other = rival_of(row, found)
        if other is None:
            alone.append(row.label)
        elif other is not row:
            gaps = [difference(row, other, column.metric) for column in shown]
            pairs = {each.pairs for each in gaps if each is not None}
            counts |= pairs
            seeds = Entry(" or ".join(map(str, sorted(pairs))) or "0")
            body.append((Entry(row.label), seeds, *map(signed, gaps)))
    head = ("row", "common seeds", *(column.heading for column in shown))
    title = f"{title_of(rows)}: difference from {place}"
    return Table(title, head, tuple(body), _caption(counts, place, alone))


def signed(found: Difference | None) -> Entry:
    """Mean difference ± half of its interval, marked where that excludes 0."""
    if found is None:
        return Entry(DASH)
    mean = PERCENT(found.mean)
    sign = "+" if found.mean > 0 and float(mean) > 0 else ""
    mark = MARK if found.supported else ""
    return Entry(f"{sign}{mean}{mark}" + ("" if found.half is None else f" ±{PERCENT(found.half)}"), found.supported)


def _caption(counts: set[int], place: str, alone: Sequence[str]) -> str:
    told = [
        f"Row less {place}, same seeds: mean ± half of the {LEVEL:.0%} interval (Student's t).",
        f"{MARK} and bold: the interval excludes 0; nothing is said of the others.",
    ]
    if 1 in counts:
        told.append("With one common seed there is no interval.")
    if counts and min(counts) < ENOUGH:
        told.append(f"Fewer than {ENOUGH} common seeds: too few to say that a claim holds.")
    if alone:
        told.append(f"Left out, as there is no {place}: {', '.join(alone)}.")
    return " ".join(told)
