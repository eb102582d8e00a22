"""Writing, reading and comparing checkpoints."""

from math import isnan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esacl.training.checkpoint import pack, unpack

STATE: dict[str, Any] = {
    "a": torch.arange(5),
    "nested": {1: torch.zeros(2, 3, dtype=torch.bfloat16), "c": [1, None, 2.5, "text", True]},
    "scalar": torch.tensor(3.0),
}


def write(folder: Path, state: dict[str, Any]) -> Path:
    path = folder / "state.safetensors"
    path.write_bytes(pack(state))
    return path


def round_trip(folder: Path, state: dict[str, Any]) -> dict[str, Any]:
    return unpack(write(folder, state))


def identical(one: Any, other: Any) -> bool:
    """Whether two states agree in every type and bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, dict):
        keys = [(type(k), k) for k in one] == [(type(k), k) for k in other]
        return keys and all(identical(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(identical(a, b) for a, b in zip(one, other))
    if isinstance(one, float) and isnan(one):
        return isnan(other)
    return bool(one == other)
