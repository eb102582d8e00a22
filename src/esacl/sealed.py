"""Tensors in a safetensors file, with a JSON description of them and a digest of both.

Any reader of safetensors reads the tensors; the description is one JSON document under the key `esacl` of the metadata.
One key, because the format does not keep the order of several: the same contents give the same bytes.
"""

import json
import warnings
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from esacl.documents import as_record, parse_json
from esacl.errors import CheckpointError

KEY, DIGEST = "esacl", "sha256"


def seal(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> tuple[bytes, str]:
    """The bytes of a file, and the digest in it."""
    told = digest(json.dumps(about), tensors)
    return save(dict(tensors), {KEY: json.dumps({**about, DIGEST: told})}), told


def read_sealed(path: Path, remedy: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Description and tensors of a file, if they match its digest; one of an earlier version has none, with a note."""
    metadata, tensors = read_tensors(path, remedy)
    about = described(metadata)
    told = about.pop(DIGEST, None)
    if told is not None and told != digest(json.dumps(about), tensors):
        raise CheckpointError(f"{str(path)!r} is damaged: its contents do not match its digest. {remedy}")
    if about and told is None:
        warnings.warn(
            f"{str(path)!r} has no digest, as earlier versions wrote none: damage to it would not be noticed.",
            stacklevel=2,
        )
    return about, tensors


def read_tensors(path: Path, remedy: str, names: bool = True) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors (none without `names`) of a safetensors file; whatever is wrong is a CheckpointError."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in (file.keys() if names else ())}
    except Exception as error:  # of the format, the system, a name that is no path, a type that torch does not have
        raise CheckpointError(f"{str(path)!r} cannot be read: {error}. {remedy}") from None


def recorded_digest(path: Path) -> str | None:
    """The digest that a file says it has; None where it has none or cannot be read."""
    try:
        told = described(read_tensors(path, "", names=False)[0]).get(DIGEST)
    except CheckpointError:
        return None
    return told if isinstance(told, str) else None


def described(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The description in the metadata of a file; empty where there is none."""
    try:
        return as_record(parse_json(metadata.get(KEY, "")), dict[str, Any])
    except ValueError:
        return {}


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a text and of tensors: their names, types, shapes and bytes."""
    found = sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
    return found.hexdigest()
