"""Caps on what data files may take: far above any honest file, and raised in the environment."""

import os

from esacl.errors import ConfigError

MAX_BYTES, MAX_PIXELS = "ESACL_MAX_BYTES", "ESACL_MAX_PIXELS"
"""Variables of the environment that raise the caps: unpacked bytes of an archive or a file, pixels of an image."""

_BYTES = 2**31  # the largest official set has an eighth of it
_PIXELS = 2**26  # 8192 × 8192, which is 200 MB as colours


def max_bytes() -> int:
    """Bytes that an archive may unpack to, and that a file may have."""
    return _cap(MAX_BYTES, _BYTES)


def max_pixels() -> int:
    """Pixels that are decoded of an image."""
    return _cap(MAX_PIXELS, _PIXELS)


def _cap(name: str, usual: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        raise ConfigError(f"{name}={text!r} is not allowed. Allowed: a whole number from 1 on, or no value.")
    return int(text)
