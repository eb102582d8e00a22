"""Weights of others, which a network begins with, damaged: safetensors, and what torch.save has written."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from esacl.sealed import KEY
from tests.faults import damage_bytes, damage_tensors, damage_values
from tests.faults.actions import command
from tests.faults.case import Case, Kind, Place

SMALL = ("--method", "finetune", "--epochs", "1", "--limit-per-class", "3", "--backbone", "mlp", "--width", "16")


class Harm:
    """What a pickle may ask for."""

    def __init__(self, function: Callable[..., object], *given: object) -> None:
        self._asked = function, given

    def __reduce__(self) -> Any:
        return self._asked


STRANGE: tuple[Callable[[Tensor], Any], ...] = (
    lambda value: value.to(torch.complex64),
    lambda value: value.to(torch.bfloat16),
    lambda value: value.to(torch.float8_e4m3fn),
    lambda value: value.to(torch.int64),
    lambda value: value.to("meta"),
    lambda value: value.to_sparse(),
    lambda value: torch.quantize_per_tensor(value, 0.1, 0, torch.quint8),
    lambda value: value.clone().requires_grad_(),
    lambda value: torch.nn.Parameter(value),
    lambda value: value.new_zeros(1).expand(10**6, 10**5),
    lambda value: torch.nested.nested_tensor([value, value], layout=torch.jagged),
    lambda value: value.as_strided((10**6, 10**6), (0, 0)),
    lambda value: value.numpy(),
    lambda value: None,
    lambda value: "text",
    lambda value: Harm(exec, "open('ran', 'w').close()"),
    lambda value: Harm(os.system, "touch ran"),
    lambda value: Harm(__import__, "canary"),
    lambda value: Harm(bytearray, 10**11),
    lambda value: Harm(torch.zeros, 10**11),
)


def pretrained(rng: Random, place: Place) -> Case:
    """A file for `--weights`."""
    tensors = load_file(place.specimens / "run" / "model.safetensors")
    path = place.own / rng.choice(("w.safetensors", "w.pth", "w.pt"))
    told = _safetensors(rng, path, tensors) if path.suffix == ".safetensors" else _torch(rng, path, tensors)
    words = ("run", *SMALL, "--weights", path.name, "--out", "new", "--json")
    return Case(command(*words), (f"{path.name}: {told}", f"esacl {' '.join(words)}"), json=True)


def _safetensors(rng: Random, path: Path, tensors: dict[str, Tensor]) -> str:
    scale = rng.choice(
        (damage_values.poison(rng), {"mean": damage_values.poison(rng), "std": damage_values.poison(rng)})
    )
    about = {KEY: damage_values.as_json({"input": scale})} if rng.random() < 0.2 else None
    told = damage_tensors.change(rng, tensors) if rng.random() < 0.5 else ""
    path.write_bytes(save(tensors, about))
    return told or damage_tensors.damage(rng, path)[0]


def _torch(rng: Random, path: Path, tensors: dict[str, Tensor]) -> str:
    """Strange things in the place of tensors, around them, or bytes that are changed."""
    way, tree, told = rng.randrange(5), dict[Any, Any](tensors), []
    if way == 0:
        told.append(damage_tensors.change(rng, tensors))
        tree = dict(tensors)
    elif way == 1:
        name, number = rng.choice(sorted(tree)), rng.randrange(len(STRANGE))
        tree[name] = STRANGE[number](tree[name])
        told.append(f"{name}: strange {number}")
    elif way == 2:
        name = rng.choice((0, "", "a\0b", None, (1, 2), "x" * 5000, "\ud800", "\x1b[31m"))
        tree = {**tree, name: rng.choice((tree.pop(sorted(tree)[0]), damage_values.poison(rng)))}
        told.append(f"a name {name!a}"[:80])
    outer: Any = tree
    if rng.random() < 0.3:
        key = rng.choice(("state_dict", "model", "weights", "strange", 0))
        outer = rng.choice(
            ({key: tree}, {key: tree, "epoch": damage_values.poison(rng)}, [tree], (tree, tree), {key: {}})
        )
        told.append(f"inside {key!r}")
    data = _dumped(rng, outer)
    if way > 2:
        data, what = damage_bytes.damage(rng, data)
        told.append(what)
    path.write_bytes(data)
    return ", ".join(told)


def _dumped(rng: Random, tree: Any) -> bytes:
    """By torch.save, of today or of before, or by pickle alone."""
    target = io.BytesIO()
    try:
        if rng.random() < 0.1:
            return pickle.dumps(tree)
        torch.save(tree, target, _use_new_zipfile_serialization=rng.random() < 0.7)
    except Exception as error:  # not everything can be written
        return repr(error).encode()
    return target.getvalue()


KINDS = (Kind("pretrained", pretrained, 3),)
