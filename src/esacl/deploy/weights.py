"""Weights in a safetensors file, sparse layers as a bit for each weight and the values that are not zero."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from esacl.deploy.model import Trained
from esacl.errors import CheckpointError
from esacl.files import write_atomic
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
    about = {"format": FORM, **model.about(), "sparse": shapes}
    write_atomic(path, save(tensors, {"esacl": json.dumps(about)}))  # one key, as the format keeps no order of several


def load_sparse(path: str | PathLike[str]) -> Params:
    """The state dict in a file of `esacl export --format safetensors`, bit for bit the weights that were exported."""
    return read_export(Path(path))[1]


def read_export(path: Path) -> tuple[dict[str, Any], Params]:
    """What an exported file says of its weights, and the weights as a state dict."""
    remedy = "Give a file that `esacl export` wrote with --format safetensors or torch."
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {error}. {remedy}") from None
    about = described(metadata)
    if about.get("format") != FORM:
        raise CheckpointError(f"{str(path)!r} was not exported by esacl. {remedy}")
    try:
        for name, shape in about["sparse"].items():
            tensors[name] = _whole(tensors.pop(f"{name}{MASK}"), tensors.pop(f"{name}{VALUES}"), shape)
    except (LookupError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{str(path)!r} is damaged: {error}. Export it again.") from None
    return about, tensors


def described(metadata: dict[str, str]) -> dict[str, Any]:
    """The document in the metadata of a file of weights; empty where there is none."""
    try:
        about = json.loads(metadata["esacl"])
    except (LookupError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _held(value: Tensor) -> Tensor:
    """Which entries have a bit set: all but plus zero, as minus zero is kept too."""
    return value.contiguous().view(torch.int32) != 0


def _worth_packing(value: Tensor) -> bool:
    """Whether a bit for each entry and the values in use take less than all values."""
    if value.dtype != torch.float32 or value.ndim < 2:
        return False
    return int(_held(value).sum()) * 32 + value.numel() < value.numel() * 32


def _whole(mask: Tensor, values: Tensor, shape: list[int]) -> Tensor:
    """The values where they belong, and zeros."""
    held = unpack(mask, shape)
    if int(held.sum()) != len(values):
        raise ValueError(f"{int(held.sum())} places for {len(values)} values")
    whole = torch.zeros(shape, dtype=values.dtype)
    whole[held] = values
    return whole
