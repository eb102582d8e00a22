"""Families of methods, each with a colour and a marker: nothing is told by colour alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from esacl.report.figures.chart import Key
from esacl.report.figures.svg import colour
from esacl.report.rows import Row


@dataclass(frozen=True, slots=True)
class Family:
    """Methods that work alike."""

    name: str
    ink: str
    marker: str  # as matplotlib calls it


BOUNDS = Family("bounds: finetune, all tasks at once", colour(7), "X")
DENSE = Family("dense, nothing replayed", colour(4), "s")
REPLAY = Family("dense, replay", colour(1), "^")
OWN = Family("sparse, weights or units of each task", colour(3), "P")
SPARCL = Family("SparCL", colour(2), "D")
ESACL = Family("EsaCL", colour(0), "o")
FAMILIES = (ESACL, SPARCL, OWN, REPLAY, DENSE, BOUNDS)


def family_of(row: Row) -> Family:
    """The family of a row: the two methods with many bases by name, all others by what they keep."""
    record = row.records[0]
    base = record.method.partition("-")[0]
    if base in ("esacl", "sparcl"):
        return ESACL if base == "esacl" else SPARCL
    if record.sparsity > 0:
        return OWN
    if record.joint or record.method == "finetune":
        return BOUNDS
    return REPLAY if "buffer" in record.config.get("objective", {}) else DENSE


def family_keys(rows: Iterable[Row]) -> tuple[Key, ...]:
    """The legend of their families, in a fixed order."""
    there = set(map(family_of, rows))
    return tuple(Key(family.name, family.ink, family.marker) for family in FAMILIES if family in there)
