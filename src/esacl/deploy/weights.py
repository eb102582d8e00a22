"""Weights in a safetensors file, sparse layers as a bit for each weight and the values that are not zero."""

from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esacl.deploy.model import Trained
from esacl.errors import CheckpointError
from esacl.files import write_atomic
from esacl.sealed import read_sealed, seal
from esacl.sparsity.masks import pack, unpack
from esacl.types import Params

FORM = "esacl-export-1"
MASK, VALUES = ".mask", ".values"


def write_export(path: Path, model: Trained, sparse: bool) -> None:
    """Write a model's weights: dense, as a plain state dict; or every layer that is smaller that way packed."""
    tensors: Params = {}
    shapes: dict[str, list[int]] = {}
    for name, value in model.weights.items():
        if sparse and _worth_packing(value):
            held = _held(value)
            shapes[name] = list(value.shape)
            tensors[f"{name}{MASK}"] = pack(held)
            tensors[f"{name}{VALUES}"] = value[held].contiguous()
        else:
            tensors[name] = value.clone(memory_format=torch.contiguous_format)
    data, _ = seal(tensors, {"format": FORM, **model.about(), "sparse": shapes})
    write_atomic(path, data)


def load_sparse(path: str | PathLike[str]) -> Params:
    """The state dict in a file of `esacl export --format safetensors`, bit for bit the weights that were exported."""
    return read_export(Path(path))[1]


def read_export(path: Path) -> tuple[dict[str, Any], Params]:
    """What an exported file says of its weights, and the weights as a state dict."""
    remedy = "Give a file that `esacl export` wrote with --format safetensors or torch."
    about, tensors = read_sealed(path, remedy)
    if about.get("format") != FORM:
        raise CheckpointError(f"{str(path)!r} was not exported by esacl. {remedy}")
    try:
        for name, shape in about["sparse"].items():
            tensors[name] = _whole(tensors.pop(f"{name}{MASK}"), tensors.pop(f"{name}{VALUES}"), shape)
    except (LookupError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise CheckpointError(f"{str(path)!r} is damaged: {error}. Export it again.") from None
    return about, tensors


def _held(value: Tensor) -> Tensor:
    """Which entries have a bit set: all but plus zero, as minus zero is kept too."""
    return value.contiguous().view(torch.int32) != 0


def _worth_packing(value: Tensor) -> bool:
    """Whether a bit for each entry and the values in use take less than all values."""
    if value.dtype != torch.float32 or value.ndim < 2:
        return False
    return int(_held(value).sum()) * 32 + value.numel() < value.numel() * 32


def _whole(mask: Tensor, values: Tensor, shape: list[int]) -> Tensor:
    """The values where they belong, and zeros; sizes are compared before anything of that shape is made."""
    if mask.dtype != torch.uint8 or mask.ndim != 1 or values.ndim != 1:
        raise ValueError("a mask is not a row of bytes, or its values are not in a row")
    if not all(type(size) is int and size >= 0 for size in shape) or -(-prod(shape) // 8) != len(mask):
        raise ValueError(f"the shape {shape} does not fit a mask of {len(mask)} bytes")
    held = unpack(mask, shape)
    if int(held.sum()) != len(values):
        raise ValueError(f"{int(held.sum())} places for {len(values)} values")
    whole = torch.zeros(shape, dtype=values.dtype)
    whole[held] = values
    return whole
