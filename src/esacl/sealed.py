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
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from esacl.errors import CheckpointError

KEY, DIGEST = "esacl", "sha256"


def seal(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> tuple[bytes, str]:
    """The bytes of a file, and the digest in it."""
    told = digest(json.dumps(about), tensors)
    return save(dict(tensors), {KEY: json.dumps({**about, DIGEST: told})}), told


def read_sealed(path: Path, remedy: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Description and tensors of a file, if they match its digest; one of an earlier version has none, with a note."""
    try:
        with safe_open(path, framework="pt") as file:
            about = described(file.metadata())
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {error}. {remedy}") from None
    told = about.pop(DIGEST, None)
    if told is not None and told != digest(json.dumps(about), tensors):
        raise CheckpointError(f"{str(path)!r} is damaged: its contents do not match its digest. {remedy}")
    if about and told is None:
        warnings.warn(
            f"{str(path)!r} has no digest, as earlier versions wrote none: damage to it would not be noticed.",
            stacklevel=2,
        )
    return about, tensors


def recorded_digest(path: Path) -> str | None:
    """The digest that a file says it has; None where it has none or cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return described(file.metadata()).get(DIGEST)
    except (OSError, SafetensorError):
        return None


def described(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """The description in the metadata of a file; empty where there is none."""
    try:
        about = json.loads((metadata or {})[KEY])
    except (LookupError, ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a text and of tensors: their names, types, shapes and bytes."""
    found = sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
    return found.hexdigest()
