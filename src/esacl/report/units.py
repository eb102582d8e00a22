"""Figures as people read them; what is not known is an en dash."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Literal

DASH = "–"
Kind = Literal["share", "flops", "seconds", "bytes"]
_FLOP = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP")


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit for a whole column, so that its numbers can be compared at a glance.

    >>> unit = unit_for("flops", [1.234e12, 2.5e11, None])
    >>> unit.name, unit(1.234e12), unit(2.5e11), unit(None), unit(1.234e12, 1e10)
    ('TFLOP', '1.23', '0.25', '–', '1.23 ±0.01')
    >>> unit_for("share", [0.97])(0.974, 0.0042)
    '97.4 ±0.4'
    >>> unit_for("bytes", [3e6])(2**20)
    '1.00'
    """

    name: str
    size: float
    decimals: int

    def __call__(self, value: float | None, std: float | None = None) -> str:
        if value is None or not isfinite(value):
            return DASH
        text = f"{value / self.size:.{self.decimals}f}"
        if float(text) == 0:
            text = text.removeprefix("-")
        return text.replace("-", "−") + (f" ±{std / self.size:.{self.decimals}f}" if std is not None else "")


PERCENT = Unit("%", 0.01, 1)


def unit_for(kind: Kind, values: Iterable[float | None]) -> Unit:
    """The unit in which the largest of `values` is easy to read."""
    known = [value for value in values if value is not None and isfinite(value)]
    top = max(known, default=0.0)
    if kind == "share":
        return PERCENT
    if kind == "seconds":
        return Unit("s", 1, 1) if top < 600 else Unit("min", 60, 1) if top < 36_000 else Unit("h", 3600, 2)
    if kind == "bytes":
        return Unit("MiB", 2**20, 2)
    power = 0
    while top >= 1000 and power < len(_FLOP) - 1:
        top, power = top / 1000, power + 1
    size = 1000.0**power
    least = min((value / size for value in known if value > 0), default=1.0)
    return Unit(_FLOP[power], size, min(4, max(2 if top < 100 else 1, 1 - floor(log10(least)))))


def percent(fraction: float | None, *, signed: bool = False) -> str:
    """A share as a percentage.

    >>> percent(0.9744), percent(1), percent(None)
    ('97.4%', '100.0%', '–')
    >>> percent(-0.031, signed=True), percent(0.02, signed=True), percent(-0.00001, signed=True)
    ('−3.1%', '+2.0%', '0.0%')
    """
    if fraction is None or not isfinite(fraction):
        return DASH
    value = round(100 * fraction, 1)
    if value == 0:
        return "0.0%"
    sign = "−" if value < 0 else "+" if signed else ""
    return f"{sign}{abs(value):.1f}%"


def flops(count: float | None) -> str:
    """A number of operations.

    >>> flops(1.234e12), flops(52_000), flops(0), flops(999_999), flops(None)
    ('1.23 TFLOP', '52.0 kFLOP', '0 FLOP', '1.00 MFLOP', '–')
    """
    return _scaled(count, 1000, _FLOP)


def bytes_(count: float | None) -> str:
    """An amount of memory.

    >>> bytes_(512), bytes_(1536), bytes_(3 * 2**30), bytes_(None)
    ('512 B', '1.50 KiB', '3.00 GiB', '–')
    """
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def seconds(count: float | None) -> str:
    """A duration.

    >>> seconds(0.0421), seconds(3.21), seconds(59.96), seconds(125), seconds(7384), seconds(None)
    ('0.04 s', '3.2 s', '1 min 00 s', '2 min 05 s', '2 h 03 min', '–')
    """
    if count is None or not isfinite(count):
        return DASH
    if count < 0.995:
        return f"{count:.2f} s"
    if count < 59.95:
        return f"{count:.1f} s"
    whole = round(count)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(count / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def shorten(name: str, length: int) -> str:
    """A name cut to at most `length` characters.

    >>> shorten("der++", 8), shorten("a very long name", 8)
    ('der++', 'a very …')
    """
    return name if len(name) <= length else name[: length - 1] + "…"


def clean(text: str, keep: str = "") -> str:
    """Text without the characters that a document cannot hold or that hide what is written; but those of `keep`.

    >>> clean("caf\u00e9 \u202etxt")
    'café �txt'
    """
    return "".join(char if char.isprintable() or char in keep else "\N{REPLACEMENT CHARACTER}" for char in text)


def _scaled(count: float | None, base: int, units: tuple[str, ...]) -> str:
    if count is None or not isfinite(count):
        return DASH
    for unit in units:
        digits = f"{count:.0f}" if unit == units[0] else _three_digits(count)
        if float(digits) < base:
            return f"{digits} {unit}"
        count /= base
    return f"{count * base:.3g} {units[-1]}"


def _three_digits(value: float) -> str:
    """Three significant digits, without an exponent and with trailing zeros."""
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"
