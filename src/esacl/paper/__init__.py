"""What the EsaCL paper (Ren & Honavar, SDM 2024) reports, as data: `tables.toml`."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Measure = tuple[float, float | None]  # mean and standard deviation, where one is given

STREAMS = ("split-cifar10", "split-cifar100", "split-tinyimagenet")
UNITS = {
    "capacity": ("cap", 0.01),
    "flops": ("flops", 1e15),
    "footprint": ("memory_mb", 1e6),
    "seconds": ("hours", 3600.0),
}
"""Figures of the tables that have no spread: what they are called there, and in which unit."""
NETWORK = {"backbone": "resnet18", "width": 64}


@dataclass(frozen=True, slots=True)
class Reported:
    """What the paper says of a method on a stream; shares and FLOPs, None where it says nothing."""

    task_il: Measure | None = None
    class_il: Measure | None = None
    capacity: float | None = None
    flops: float | None = None
    footprint: float | None = None  # bytes
    seconds: float | None = None


def reported(method: str, stream: str, sparsity: float, without: str = "", beside: Sequence[str] = ()) -> Reported:
    """The paper's numbers for a method, or for EsaCL `without` sa, sp, sse or ere.

    Table 1 goes before Table 4, where both report the same. A whole method `beside` others without these parts has the
    number of their table, where it is in it.

    >>> reported("esacl-er", "split-cifar100", 0.8)
    Reported(task_il=(0.7051, 0.0034), class_il=(0.4927, 0.0072), capacity=0.2, flops=530000000000000.0, \
footprint=None, seconds=57600.0)
    >>> reported("esacl-er", "split-cifar100", 0.8, without="sa").class_il
    (0.2651, None)
    >>> reported("esacl-er", "split-cifar100", 0.8, beside=["sa"]).class_il
    (0.4956, None)
    """
    if without:
        return _reported(_ablation(method, stream, sparsity, [without]).get(f"without_{without}", {}))
    whole = _ablation(method, stream, sparsity, beside).get("full")
    if whole:
        return _reported(whole)
    entry = _row("main", method=method, sparsity=sparsity).get(stream, {})
    swept = _row("sparsity_sweep", sparsity=sparsity).get(method, {}) if stream == "split-cifar100" else {}
    return _reported(swept | entry)


def setup(stream: str) -> dict[str, Any]:
    """What the paper trained with on a stream; empty for a stream that it does not have.

    >>> setup("split-cifar10")["epochs"], setup("split-digits")
    (50, {})
    """
    if stream not in STREAMS:
        return {}
    given = {name: value[stream] if isinstance(value, dict) else value for name, value in _tables()["setup"].items()}
    return given | NETWORK


def _ablation(method: str, stream: str, sparsity: float, parts: Sequence[str]) -> dict[str, Any]:
    """The row of Table 2 or 3 about these parts: of the method that its numbers tell, as the paper does not name it."""
    if method == "esacl-er" and stream == "split-cifar100" and {"sa", "sp"} & {*parts}:
        return _row("pruning_ablation", sparsity=sparsity)
    if method == "esacl-der++" and sparsity == 0.8 and {"sse", "ere"} & {*parts}:
        return _row("selection_ablation", dataset=stream)
    return {}


def _reported(entry: Mapping[str, Any]) -> Reported:
    """An entry of the tables in the units of a run."""
    known = {name: round(entry[key] * unit, 6) for name, (key, unit) in UNITS.items() if key in entry}
    return Reported(_measure(entry.get("task_il")), _measure(entry.get("class_il")), **known)


def _measure(value: Any) -> Measure | None:
    """Percentages, with or without a spread, as shares."""
    if value is None:
        return None
    mean, std = value if isinstance(value, list) else (value, None)
    return round(mean / 100, 6), None if std is None else round(std / 100, 6)


def _row(table: str, **key: Any) -> dict[str, Any]:
    """The row of a table with these values; empty where there is none."""
    rows = _tables()[table]
    return next((row for row in rows if all(row[name] == value for name, value in key.items())), {})


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("esacl.paper").joinpath("tables.toml").read_text(encoding="utf-8"))
