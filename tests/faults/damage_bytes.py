"""Damage to any file: bytes flipped, cut, doubled, spliced, filled."""

from collections.abc import Callable
from random import Random

Change = tuple[bytes, str]


def damage(rng: Random, data: bytes) -> Change:
    """The bytes with one to three changes, and what they are."""
    told = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data, what = rng.choice(_WAYS)(rng, data)
        told.append(what)
    return data, ", ".join(told)


def _place(rng: Random, data: bytes) -> int:
    """Anywhere, but often near the beginning, where headers are, or near the end, where indexes are."""
    size = len(data)
    near = rng.choice((size, size, min(size, 64), min(size, 512)))
    place = rng.randrange(max(1, near))
    return size - 1 - place if size and rng.random() < 0.2 else place


def _flip(rng: Random, data: bytes) -> Change:
    changed = bytearray(data)
    places = sorted({_place(rng, data) for _ in range(rng.choice((1, 1, 4, 32)))}) if data else []
    for place in places:
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed), f"bits flipped at {places[:4]}"


def _set(rng: Random, data: bytes) -> Change:
    changed, place = bytearray(data), _place(rng, data)
    value = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x5C, 0x7B, 0x5D))
    changed[place : place + 1] = bytes([value])
    return bytes(changed), f"byte {place} set to {value:#x}"


def _cut(rng: Random, data: bytes) -> Change:
    place = rng.choice((0, 1, 7, 8, 9, _place(rng, data), max(0, len(data) - 1)))
    return data[:place], f"cut to {place} bytes"


def _double(rng: Random, data: bytes) -> Change:
    return data + data, "doubled"


def _drop(rng: Random, data: bytes) -> Change:
    place, size = _place(rng, data), rng.choice((1, 4, 64, 512))
    return data[:place] + data[place + size :], f"{size} bytes dropped at {place}"


def _insert(rng: Random, data: bytes) -> Change:
    place = _place(rng, data)
    added = rng.choice((b"\0", b"\xff\xfe", b"\xc3\x28", b"[" * 2000, b"9" * 5000, b"\x1b[31m", rng.randbytes(16)))
    return data[:place] + added + data[place:], f"{added[:8]!r} ({len(added)} bytes) inserted at {place}"


def _splice(rng: Random, data: bytes) -> Change:
    start, place, size = _place(rng, data), _place(rng, data), rng.choice((4, 64, 512))
    return data[:place] + data[start : start + size] + data[place + size :], f"{size} bytes of {start} put at {place}"


def _fill(rng: Random, data: bytes) -> Change:
    place, size = _place(rng, data), rng.choice((8, 64, 4096))
    value = rng.choice((b"\0", b"\xff"))
    return data[:place] + value * len(data[place : place + size]) + data[
        place + size :
    ], f"{size} bytes of {value!r} at {place}"


def _other(rng: Random, data: bytes) -> Change:
    other = rng.choice(
        (
            b"",
            b"\0" * 100,
            b"PK\x03\x04",
            b"\x80\x04.",
            b"\x1f\x8b\x08",
            b"null",
            b"[]",
            b"\xff" * 16,
            b"\xef\xbb\xbf" + data,
        )
    )
    return other, f"replaced by {other[:12]!r}"


_WAYS: tuple[Callable[[Random, bytes], Change], ...] = (
    _flip, _flip, _set, _cut, _cut, _double, _drop, _insert, _insert, _splice, _fill, _other,
)  # fmt: skip
