"""Rows that had the same budget, the best first: accuracy, what was spent and stored, and the lead over one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esacl.budget import parse_budget
from esacl.errors import RunError
from esacl.metrics.seeds import ENOUGH, LEVEL, Difference
from esacl.report.differences import MARK, difference, rival_of, rivals, signed
from esacl.report.metrics import METRICS, columns
from esacl.report.rows import Row, records_of, tables_of, title_of
from esacl.report.table import Entry, Number, Table

BASELINE = "er"
"""The row that others are compared with, unless another one is named: plain replay."""

SHOWN = ("task_il", "class_il", "flops_executed", "seconds_cpu", "stored_bytes")
"""What a leaderboard has of each row."""

LEADS = ("task_il", "class_il")
"""What rows are compared in, seed by seed."""


@dataclass(frozen=True, slots=True)
class Board:
    """Rows of one stream and one budget, the best first, and the one that they are compared with."""

    budget: str
    rows: tuple[Row, ...]
    found: tuple[Row, ...]

    def lead(self, row: Row, key: str) -> Difference | None:
        """How much better a row is than the one to compare with; None where there is no pair, and of that row."""
        other = rival_of(row, self.found)
        return None if other is None or other is row else difference(row, other, METRICS[key])


def budget_of(row: Row) -> str | None:
    """The budget that its runs had."""
    return row.records[0].budget if row.records else None


def boards(rows: Sequence[Row], against: str) -> list[Board]:
    """A board for each budget, the smallest first; rows that may be compared. Those without a budget are left out."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if (budget := budget_of(row)) is not None:
            found.setdefault(budget, []).append(row)
    given = sorted(found, key=lambda text: (parse_budget(text).unit, parse_budget(text).amount))
    return [
        Board(budget, tuple(sorted(found[budget], key=_rank)), tuple(rivals(found[budget], against)))
        for budget in given
    ]


def _rank(row: Row) -> tuple[bool, float]:
    """By Class-IL, or Task-IL where it has no other; those go last."""
    spreads = [METRICS[key].spread(row.records) for key in ("class_il", "task_il")]
    best = next((each.mean for each in spreads if each is not None), 0.0)
    return spreads[0] is None, -best


def leaderboard(rows: Sequence[Row], against: str) -> Table | None:
    """One table of rows that may be compared; None where none of them had a budget."""
    found = boards(rows, against)
    if not found:
        return None
    shown = columns(records_of([row for board in found for row in board.rows]), SHOWN)
    several = len(found) > 1
    leads = [column for column in shown if column.metric.key in LEADS]
    head = ["row", *(["budget"] if several else []), "seeds", *(column.heading for column in shown)]
    head += [f"{column.name} − {against}" for column in leads] if any(board.found for board in found) else []
    body = []
    for board in found:
        best = [column.best(board.rows) for column in shown]
        for row in board.rows:
            means = [column.mean(row.records) for column in shown]
            cells = [Entry(row.label), *([Entry(board.budget)] if several else []), Entry(row.seeds)]
            cells += [
                Entry(mean, column.metric.learning and mean.partition(" ")[0] == top)
                for mean, top, column in zip(means, best, shown)
            ]
            cells += [signed(board.lead(row, column.metric.key)) for column in leads]
            body.append(tuple(cells[: len(head)]))
    title = title_of(rows) + ("" if several else f", {found[0].budget}")
    return Table(f"{title}: equal budgets", tuple(head), tuple(body), _caption(rows, found, against))


def _caption(rows: Sequence[Row], found: Sequence[Board], against: str) -> str:
    told = ["The best first, by Class-IL. Spent in training; evaluation is not charged. Stored: weights and memory."]
    if any(board.found for board in found):
        told.append(
            f"Last columns: row less {against} at the same budget, same seeds: mean ± half of the {LEVEL:.0%} interval "
            f"(Student's t). {MARK} and bold: it excludes 0."
        )
    pairs = [lead.pairs for board in found for row in board.rows if (lead := board.lead(row, LEADS[0]))]
    if pairs and min(pairs) < ENOUGH:
        told.append(f"Fewer than {ENOUGH} common seeds: too few to say that a claim holds.")
    left = [row.label for row in rows if row.records and budget_of(row) is None]
    told += [f"Left out, as they had no budget: {', '.join(left)}."] if left else []
    return " ".join(told)


def leaderboards(rows: Sequence[Row], against: str) -> list[Table]:
    """A table for each stream and split; an error where no row had a budget."""
    found = [table for members in tables_of(rows) if (table := leaderboard(members, against)) is not None]
    if not found:
        raise RunError(
            "none of these runs had a budget, so there is nothing to rank at equal cost. Train with --budget, such as "
            "`esacl run --budget 1e12flops`, or compare them as they are with `esacl table`."
        )
    return found


def board_numbers(rows: Sequence[Row], against: str) -> Iterator[list[Number]]:
    """The same for programs."""
    named = [f"{key}{ending}" for key in SHOWN for ending in ("", "_std")]
    leads = [f"{key}_minus_row{end}" for key in LEADS for end in ("", "_low", "_high", "_seeds")]
    yield ["stream", "split", "budget", "row", "seeds", *named, "against", *leads]
    for members in tables_of(rows):
        for board in boards(members, against):
            for row in board.rows:
                spreads = [METRICS[key].spread(row.records) for key in SHOWN]
                values = [value for each in spreads for value in ((each.mean, each.std) if each else (None, None))]
                found = [board.lead(row, key) for key in LEADS]
                beside = [end for each in found for end in _ends(each)]
                yield [row.stream, row.split, board.budget, row.label, len(row.records), *values, against, *beside]


def _ends(lead: Difference | None) -> list[Number]:
    return [None] * 4 if lead is None else [lead.mean, lead.low, lead.high, lead.pairs]
