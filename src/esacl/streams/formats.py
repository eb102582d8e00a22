"""What kind of image a file holds, by its content: names of files are not to be relied on."""

import struct
from functools import cache

from PIL import features

from esacl.errors import DataError

HEAD, TAIL = 32, 64
"""Bytes at the beginning and at the end of a file that are looked at."""

_STARTS = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"MM\0+": "TIFF",
    **{f"P{digit}{space}".encode(): "PNM" for digit in range(1, 7) for space in " \t\r\n"},
}
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "HEIC"),
}


def kind(head: bytes) -> str | None:
    """The format of a file that begins like this; None if it is no image.

    >>> kind(b"GIF89a..."), kind(b"RIFF\\0\\0\\0\\0WEBPVP8 "), kind(b"Dear diary")
    ('GIF', 'WebP', None)
    """
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    if head[4:8] == b"ftyp":
        brands = [head[8:12], *(head[start : start + 4] for start in range(16, len(head) - 3, 4))]
        found = [_BRANDS[brand] for brand in brands if brand in _BRANDS]
        return "AVIF" if "AVIF" in found else found[0] if found else None
    return next((name for start, name in _STARTS.items() if head.startswith(start)), None)


def looks_whole(head: bytes, tail: bytes, size: int) -> bool:
    """Whether a file ends as its format does; formats that do not tell by their end are taken for whole."""
    match kind(head):
        case "JPEG":
            return b"\xff\xd9" in tail
        case "PNG":
            return b"IEND" in tail
        case "GIF":
            return tail.rstrip(b"\0").endswith(b";")
        case "WebP":
            return bool(struct.unpack("<I", head[4:8])[0] + 8 <= size)
        case "BMP":
            return bool(struct.unpack("<I", head[2:6])[0] <= size)
    return True


def prepare(head: bytes) -> None:
    """Make sure that Pillow can read the format of a file, or say what to install."""
    found = kind(head)
    if found == "HEIC" and not _heif():
        raise DataError("HEIC images need pip install 'esacl[heic]'")
    if found in ("AVIF", "WebP") and not features.check(found.lower()):
        raise DataError(f"this build of Pillow reads no {found}: pip install --upgrade pillow")


@cache
def _heif() -> bool:
    """Teach Pillow HEIC, where pillow-heif is installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True
