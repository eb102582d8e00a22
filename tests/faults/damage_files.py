"""Damage to archives, pickles and images, by their structure."""

import gzip
import io
import pickletools
import stat
import tarfile
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from tests.faults import damage_bytes

Files = dict[str, bytes]
NAMES = (
    "../outside/kept",
    "/etc/passwd",
    "..",
    "",
    ".",
    "a\\..\\..\\x",
    "C:\\x",
    "x" * 300,
    "a\nb",
    "\x1b[31m",
    "é/\udcff",
    "nul\0l",
)
GADGETS = (
    b"cos\nsystem\n(S'touch ran'\ntR.",
    b'cbuiltins\neval\n(S\'open("ran","w")\'\ntR.',
    b"cnumpy\nload\n(S'ran'\ntR.",
    b"\x80\x04\x95\x15\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x8c\x03ran\x85R.",
    b"(" * 20000 + b".",
    b"\x80\x02" + b"]q\x00" + b"h\x00a" * 3 + b".",
    b"\x80\x02r\xff\xff\xff\x7f.",
    b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"I" + b"9" * 5000 + b"\n.",
)
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I", "F", "I;16", "I;16B")
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "TGA", "PCX", "DDS", "SGI")


def pickle(rng: Random, data: bytes) -> tuple[bytes, str]:
    """A pickle with other operations."""
    way = rng.randrange(6)
    if way < 2:
        return damage_bytes.damage(rng, data)
    if way == 2:
        gadget = rng.choice(GADGETS)
        return gadget, f"a pickle {gadget[:24]!r}"
    starts = [position for _, _, position in pickletools.genops(data) if position is not None]
    place = rng.choice(starts)
    end = starts[starts.index(place) + 1] if place != starts[-1] else len(data)
    if way == 3:
        gadget = rng.choice(GADGETS)[:-1]
        return data[:place] + gadget + data[place:], f"operations {gadget[:24]!r} at {place}"
    if way == 4:
        return data[:place] + data[end:], f"operation at {place} removed"
    other = rng.choice(
        (
            b"N",
            b"K\x07",
            b"]",
            b"}",
            b"0",
            b"2",
            b")",
            b"(",
            b"t",
            b"R",
            b"b",
            b"q\x01",
            b"h\x01",
            b"\x85",
            b"G\x7f\xf8" + bytes(6),
        )
    )
    return data[:place] + other + data[end:], f"operation at {place} replaced by {other!r}"


def image(rng: Random, data: bytes) -> tuple[bytes, str]:
    """An image of another mode, form or size, or a broken one."""
    way = rng.randrange(6)
    if way < 2:
        return damage_bytes.damage(rng, data)
    if way == 2:
        bomb = b"P6\n30000 30000\n255\n" + bytes(64)
        chosen = rng.choice(
            (bomb, b"P5\n-1 8\n255\n", b"P3\n" + b"9" * 5000 + b" 8\n255\n", _png_bomb(), b"GIF89a\x00\x00\x00\x00")
        )
        return chosen, f"an image {chosen[:16]!r}"
    size = rng.choice(((1, 1), (1, 300), (300, 1), (8, 8), (64, 48)))
    mode, form = rng.choice(MODES), rng.choice(FORMATS)
    pixels = np.frombuffer(rng.randbytes(size[0] * size[1] * 3), np.uint8).reshape(size[1], size[0], 3)
    file = io.BytesIO()
    more = {"exif": _orientation(rng)} if form in ("JPEG", "PNG", "WEBP", "TIFF") and rng.random() < 0.4 else {}
    try:
        _as_mode(Image.fromarray(pixels), mode).save(file, form, **more)
    except (OSError, ValueError, KeyError, SystemError, SyntaxError):
        Image.fromarray(pixels).save(file, "PNG")
        mode, form = "RGB", "PNG"
    made, told = file.getvalue(), f"an image of {size}, {mode}, {form}{' with orientation' if more else ''}"
    if way == 5:
        made, what = damage_bytes.damage(rng, made)
        told = f"{told}, {what}"
    return made, told


def _as_mode(picture: Image.Image, mode: str) -> Image.Image:
    if mode.startswith("I;16"):
        return Image.frombytes(mode, picture.size, picture.convert("LA").tobytes())
    if mode in ("LA", "PA"):
        return picture.convert("RGBA").convert("LA").convert(mode)
    return (
        picture.convert("RGB").convert("LAB" if mode == "LAB" else mode)
        if mode != "LAB"
        else Image.new("LAB", picture.size)
    )


def _orientation(rng: Random) -> bytes:
    found = Image.Exif()
    found[0x0112] = rng.choice((1, 3, 6, 8, 0, 99))
    return rng.choice((found.tobytes(), found.tobytes()[:9], rng.randbytes(30)))


@cache
def _png_bomb() -> bytes:
    """A small file whose text unpacks to a hundred megabytes."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    whole = file.getvalue()
    body = b"zTXtx\0\0" + zlib.compress(bytes(10**8), 9)
    chunk = (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return whole[:33] + chunk + whole[33:]


def content(rng: Random, files: Files) -> str:
    """Change one file of those that go into an archive or a folder."""
    name = rng.choice(sorted(files))
    way = rng.randrange(8)
    if way == 0:
        del files[name]
        return f"{name} removed"
    if way == 1:
        other = rng.choice((rng.choice(sorted(files)), f"{name}/x", name.upper(), f"{name} "))
        files[other] = files.pop(name)
        return f"{name} renamed {other!r}"
    changer = (
        image
        if name.endswith(("JPEG", "png"))
        else damage_bytes.damage
        if "." in name.removesuffix(".meta")
        else pickle
    )
    files[name], told = changer(rng, files[name])
    return f"{name}: {told}"


def tar(rng: Random, path: Path, top: str, files: Files) -> str:
    """Write a tar whose members are not as they should be."""
    told = ""
    members = [(tarfile.TarInfo(f"{top}/{name}"), data) for name, data in files.items()]
    info, data = rng.choice(members)
    info_told = info.name
    for member, content_ in members:
        member.size = len(content_)
    way = rng.randrange(7)
    if way == 0:
        info.name = rng.choice(NAMES)
        told = f"{info_told} named {info.name!r}"
    elif way == 1:
        info.type = rng.choice(
            (
                tarfile.SYMTYPE,
                tarfile.LNKTYPE,
                tarfile.CHRTYPE,
                tarfile.FIFOTYPE,
                tarfile.DIRTYPE,
                b"Z",
                tarfile.GNUTYPE_SPARSE,
            )
        )
        info.linkname = rng.choice(("../../outside/kept", "/etc/passwd", "x"))
        told = f"{info_told} of type {info.type!r}"
    elif way == 2:
        info.size = rng.choice((0, 1, 2**33, 10**12, max(0, len(data) - 1)))
        told = f"{info_told} says it has {info.size} bytes"
    elif way == 3:
        members += [(info, data)] * rng.choice((1, 50))
        told = f"{info_told} repeated"
    elif way == 4:
        info.pax_headers = {
            rng.choice(("size", "path", "linkpath", "GNU.sparse.size", "x")): rng.choice(
                ("9" * 400, "-1", "../x", "a\0b", "nan", "x" * 10**5)
            )
        }
        told = f"{info_told} with {str(info.pax_headers)[:80]}"
    with io.BytesIO() as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for member, content_ in members:
                archive.addfile(
                    member,
                    io.BytesIO(content_.ljust(min(member.size, 1 << 20), b"\0")) if member.size < 1 << 20 else None,
                )
        written = packed.getvalue() if rng.random() < 0.5 else gzip.compress(packed.getvalue(), 1)
    if not told:
        written, told = damage_bytes.damage(rng, written)
    path.write_bytes(written)
    return f"{path.name}: {told}"


def zip_(rng: Random, path: Path, top: str, files: Files) -> str:
    """Write a zip whose members are not as they should be."""
    told = ""
    chosen, way = rng.choice(sorted(files)), rng.randrange(9)
    with io.BytesIO() as packed:
        with zipfile.ZipFile(packed, "w") as archive:
            for name, data in files.items():
                info = zipfile.ZipInfo(f"{top}/{name}")
                info.compress_type = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
                if name == chosen and way == 0:
                    info.filename = rng.choice(NAMES[:-2])
                    told = f"{name} named {info.filename!r}"
                elif name == chosen and way == 1:
                    info.external_attr = rng.choice((stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFDIR)) << 16
                    told = f"{name} with attributes {info.external_attr:#x}"
                elif name == chosen and way == 2:
                    info.compress_type = rng.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
                    told = f"{name} packed in another way"
                elif name == chosen and way == 3:
                    data, told = bytes(10**7), f"{name}: ten megabytes of zeros"
                archive.writestr(info, data)
        written = bytearray(packed.getvalue())
    field = {4: (6, 8), 5: (8, 10), 6: (22, 24), 7: (14, 16)}.get(
        way
    )  # flags, method, sizes, checksums: local, central
    if field is not None:
        magic, offset = rng.choice(((b"PK\x03\x04", field[0]), (b"PK\x01\x02", field[1])))
        place = written.find(magic, rng.randrange(len(written) // 2)) + offset
        written[place : place + 2] = rng.choice((b"\x01\x00", b"\xff\xff", b"\x00\x00", b"\x63\x00", b"\x08\x08"))
        told = f"two bytes of a header at {place}"
    if not told:
        damaged, told = damage_bytes.damage(rng, bytes(written))
        written = bytearray(damaged)
    path.write_bytes(written)
    return f"{path.name}: {told}"
