"""Damage to safetensors files: their bytes, their headers, and their contents under a digest that fits."""

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from esacl.sealed import DIGEST, KEY, digest
from tests.faults import damage_bytes, damage_values

DTYPES = (
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.int8,
    torch.float8_e4m3fn,
)
NAMES = ("F32", "F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "C64", "X", "")


def damage(rng: Random, path: Path) -> tuple[str, bool]:
    """Damage a file; what was done, and whether its digest still fits, so that nobody can notice by that."""
    way = rng.random()
    if way < 0.25 or not _readable(path):
        changed, told = damage_bytes.damage(rng, path.read_bytes())
        path.write_bytes(changed)
        return told, False
    if way < 0.45:
        return _header(rng, path), False
    metadata, tensors = _read(path)
    if not {"tree", KEY} & metadata.keys():  # of somebody else, who wrote no digest
        told = change(rng, tensors)
        path.write_bytes(save(tensors, metadata))
        return told, False
    told = change(rng, tensors) if rng.random() < 0.4 else ""
    if not told or rng.random() < 0.3:
        text, what = _text(rng, metadata)
        told = ", ".join(filter(None, (told, what)))
    else:
        text = metadata["tree" if "tree" in metadata else KEY]
    path.write_bytes(_sealed(metadata, text, tensors))
    return f"{told}, with a digest that fits", True


def _readable(path: Path) -> bool:
    try:
        return bool(_read(path)[0])
    except (OSError, SafetensorError):
        return False


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    with safe_open(path, "pt") as file:
        return dict(file.metadata() or {}), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _text(rng: Random, metadata: dict[str, str]) -> tuple[str, str]:
    """The description of the tensors, changed."""
    text = metadata["tree" if "tree" in metadata else KEY]
    if rng.random() < 0.1 or not _is_json(text):
        changed, told = damage_bytes.damage(rng, text.encode())
        return changed.decode("utf-8", "replace"), f"description: {told}"
    tree = json.loads(text)
    if "tree" not in metadata:
        tree.pop(DIGEST, None)
    tree, told = damage_values.damage(rng, tree)
    return damage_values.as_json(tree), f"description: {told}"


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _sealed(metadata: dict[str, str], text: str, tensors: dict[str, Tensor]) -> bytes:
    """A file of that description, with the digest of it, as both forms of this library have it."""
    if "tree" in metadata:
        return save(tensors, {**metadata, "tree": text, "sha256": digest(text, tensors)})
    try:
        about = json.loads(text)
        about.pop(DIGEST, None)
        text = json.dumps({**about, DIGEST: digest(json.dumps(about), tensors)})
    except (ValueError, RecursionError, AttributeError, TypeError):
        pass  # whoever reads it gets no further
    return save(tensors, {**metadata, KEY: text})


def change(rng: Random, tensors: dict[str, Tensor]) -> str:
    """Change some of these tensors."""
    told = []
    for _ in range(rng.choice((1, 1, 2))):
        if not tensors:
            break
        name = rng.choice(sorted(tensors))
        changed, what = _tensor(rng, tensors.pop(name))
        if changed is not None:
            tensors[name if what != "renamed" else f"{name}x"] = changed.contiguous().clone()
        told.append(f"{name} {what}")
    return ", ".join(told)


def _tensor(rng: Random, value: Tensor) -> tuple[Tensor | None, str]:
    way = rng.randrange(8)
    if way == 0:
        return None, "removed"
    if way == 1:
        return value, "renamed"
    if way == 2:
        kind = rng.choice(DTYPES)
        return value.to(kind), f"as {kind}"
    if way == 3:
        return value.flatten()[: rng.choice((0, 1, 3))], "cut"
    if way == 4:
        return value.reshape(-1), "flattened"
    if way == 5:
        return torch.zeros(
            rng.choice(((), (0,), (1,), (0, 5), (3, 3), (1,) * 9, (10**6,))), dtype=value.dtype
        ), "of another shape"
    if way == 6 and value.is_floating_point():
        number = rng.choice((float("nan"), float("inf"), 3e38, -3e38))
        return torch.full_like(value, number), f"filled with {number}"
    if value.dtype == torch.bool:
        return ~value, "turned over"
    number = rng.choice(
        (-1, 127, 100) if value.dtype == torch.int8 else (200, 255) if value.dtype == torch.uint8 else (-1, 10**9)
    )
    return torch.full_like(value, number), f"filled with {number}"


def _header(rng: Random, path: Path) -> str:
    """Change the header only: shapes, types, offsets, its own length."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header: dict[str, Any] = json.loads(data[8 : 8 + size])
    told, length = "", None
    names = [name for name in header if name != "__metadata__"]
    way = rng.randrange(6) if names else 5
    name = rng.choice(names) if names else ""
    if way == 0:
        header[name]["shape"] = rng.choice(
            ([], [0], [-1], [2**62, 4], [10**30], ["a"], None, [1.5], header[name]["shape"] * 2)
        )
        told = f"shape of {name} = {header[name]['shape']}"
    elif way == 1:
        header[name]["dtype"] = rng.choice(NAMES)
        told = f"type of {name} = {header[name]['dtype']}"
    elif way == 2:
        header[name]["data_offsets"] = rng.choice(
            ([0, 0], [0, 2**63], [-1, 4], [8, 4], [0], None, ["a", "b"], [0, len(data)])
        )
        told = f"offsets of {name} = {header[name]['data_offsets']}"
    elif way == 3:
        header, told = damage_values.damage(rng, header)
    elif way == 4:
        length = rng.choice((0, 1, size - 1, size + 1, size + 8, 2**31, 2**63, 2**64 - 1, len(data)))
        told = f"length of the header = {length}"
    else:
        header.pop("__metadata__", None)
        told = "no metadata"
    text = damage_values.as_json(header).encode("utf-8", "surrogatepass")
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data[8 + size :])
    return f"header: {told}"
