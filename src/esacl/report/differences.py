"""Rows against one of them, seed by seed: mean difference, its interval, and a mark where the interval supports it."""

from collections.abc import Iterator, Sequence

from esacl.errors import ConfigError, unknown_name
from esacl.metrics.seeds import ENOUGH, LEVEL, Difference, paired_difference
from esacl.report.columns import FIGURES, NUMBERS, Figure, columns
from esacl.report.sheet import Entry, Line, Number, Sheet, tables_of, title_of
from esacl.report.units import DASH, scale_for

MARK = "†"  # an asterisk means something else in Markdown
COMPARED = tuple(figure for figure in FIGURES if figure.family in ("Accuracy", "Forgetting"))
NAMES = ("task_il", "class_il", "forgetting_task_il", "forgetting_class_il")


def difference(line: Line, other: Line, of: Figure) -> Difference | None:
    """The figure of a row less that of another, over the seeds that both have; None where there is no pair."""
    theirs = {record.seed: of.of(record) for record in other.records}
    pairs = [(of.of(record), theirs.get(record.seed)) for record in line.records]
    return paired_difference([mine - yours for mine, yours in pairs if mine is not None and yours is not None])


def chosen_row(lines: Sequence[Line], name: str) -> Line | None:
    """The row of that name among lines that may be compared: its whole label, or what only its label begins with."""
    exact = [line for line in lines if line.label == name]
    found = exact or [line for line in lines if line.label.startswith((f"{name}, ", f"{name} ("))]
    if len(found) > 1:
        raise ConfigError(
            f"row {name!r} to compare with is one of several: {', '.join(repr(line.label) for line in found)}. "
            f"Write one of them out."
        )
    return found[0] if found else None


def first_dense(lines: Sequence[Line]) -> Line | None:
    """The first row that is dense and learns task after task."""
    dense = (line for line in lines if line.records and not line.records[0].joint and line.records[0].density == 1)
    return next(dense, None)


def differences(lines: Sequence[Line], against: str) -> list[Sheet]:
    """A sheet for each stream and split that has the row."""
    check_row(lines, against)
    found = [difference_sheet(members, against) for members in tables_of(lines)]
    return [sheet for sheet in found if sheet is not None]


def difference_sheet(lines: Sequence[Line], against: str | None = None) -> Sheet | None:
    """Lines that may be compared against one of them, by name or the first dense one; None where it is not there."""
    other = first_dense(lines) if against is None else chosen_row(lines, against)
    return None if other is None or len(lines) == 1 else _sheet(lines, other)


def check_row(lines: Sequence[Line], against: str) -> None:
    """Refuse a name that no row has."""
    if all(chosen_row(members, against) is None for members in tables_of(lines)):
        raise unknown_name("row to compare with", against, [line.label for line in lines])


def difference_numbers(lines: Sequence[Line], against: str) -> Iterator[list[Number]]:
    """For programs: a head, then for each line the mean difference, the ends of its interval and the seeds."""
    check_row(lines, against)
    parts = [f"{name}_minus_row{end}" for name in NAMES for end in ("", "_low", "_high", "_seeds")]
    yield ["against", *parts]
    rivals = {id(line): chosen_row(members, against) for members in tables_of(lines) for line in members}
    for line in lines:
        other = rivals[id(line)]
        values: list[Number] = []
        for name in NAMES:
            figure = Figure("", name, "share", NUMBERS[name])
            found = None if other is None or other is line else difference(line, other, figure)
            values += [None] * 4 if found is None else [found.mean, found.low, found.high, found.pairs]
        yield [None if other is None else other.label, *values]


def _sheet(lines: Sequence[Line], other: Line) -> Sheet:
    others = [line for line in lines if line is not other]
    shown = columns([record for line in lines for record in line.records], COMPARED)
    rows, counts = [], set()
    for line in others:
        found = [difference(line, other, column.figure) for column in shown]
        pairs = {each.pairs for each in found if each is not None}
        counts |= pairs
        seeds = Entry(" or ".join(map(str, sorted(pairs))) or "0")
        rows.append((Entry(line.label), seeds, *map(_entry, found)))
    heads = [column.heading for column in shown]
    title = f"{title_of(lines)}: difference from {other.label}"
    return Sheet(title, ("row", "common seeds", *heads), tuple(rows), _caption(counts, other))


def _entry(found: Difference | None) -> Entry:
    """Mean difference ± half of its interval, marked where that excludes 0."""
    if found is None:
        return Entry(DASH)
    scale = scale_for("share", [])
    mean = scale(found.mean)
    sign = "+" if found.mean > 0 and float(mean) > 0 else ""
    mark = MARK if found.supported else ""
    return Entry(f"{sign}{mean}{mark}" + ("" if found.half is None else f" ±{scale(found.half)}"), found.supported)


def _caption(counts: set[int], other: Line) -> str:
    told = [
        f"Row less {other.label}, same seeds: mean ± half of the {LEVEL:.0%} interval (Student's t).",
        f"{MARK} and bold: the interval excludes 0; nothing is said of the others.",
    ]
    if 1 in counts:
        told.append("With one common seed there is no interval.")
    if counts and min(counts) < ENOUGH:
        told.append(f"Fewer than {ENOUGH} common seeds: too few to say that a claim holds.")
    return " ".join(told)
