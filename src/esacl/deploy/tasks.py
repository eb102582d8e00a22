"""Weights of one task, from what methods that give each task its own save beside the network."""

from collections.abc import Iterable

import torch
from torch import Tensor

from esacl.errors import RunError
from esacl.sparsity.masks import unpack
from esacl.types import Params

OWNER, MASK, NORMS = "owner.", "mask.", "norms."


def own_weights(weights: Params, beside: Params, task: int) -> Params:
    """The network of a task: what it uses, and its biases and normalisation; the same for all where there are none."""
    _check_fit(weights, beside)
    masked = {name: torch.where(mask, weights[name], 0.0) for name, mask in _masks(weights, beside, task).items()}
    start = f"{NORMS}{task}."
    norms = {name.removeprefix(start): value for name, value in beside.items() if name.startswith(start)}
    return {**weights, **masked, **norms}


def used(weights: Params, beside: Params, names: Iterable[str]) -> dict[str, Tensor]:
    """Which of these weights any task uses."""
    if not beside:
        return {name: weights[name] != 0 for name in names}
    _check_fit(weights, beside)
    found: dict[str, Tensor] = {}
    for task in range(_tasks(beside)):
        for name, mask in _masks(weights, beside, task).items():
            found[name] = found[name] | mask if name in found else mask
    return {name: found.get(name, weights[name] != 0) for name in names}


def _check_fit(weights: Params, beside: Params) -> None:
    """Refuse what does not belong to these weights: it was read from a file."""
    for name, value in beside.items():
        kind, rest = name.split(".", 1)[0] + ".", name.split(".", 1)[-1]
        number, place = ("0", rest) if kind == OWNER else rest.partition(".")[::2]
        whole = weights.get(place, torch.empty(0))
        wanted = (-(-whole.numel() // 8),) if kind == MASK else tuple(whole.shape)
        if kind in (OWNER, MASK, NORMS) and not (number.isdecimal() and whole.numel() and tuple(value.shape) == wanted):
            raise RunError(f"the model is damaged: {name!r} does not fit its weights. Train it again.")


def _tasks(beside: Params) -> int:
    """How many tasks there are."""
    owners = [int(value.max()) for name, value in beside.items() if name.startswith(OWNER)]
    numbered = [int(name.split(".")[1]) + 1 for name in beside if name.startswith((MASK, NORMS))]
    return max([*owners, *numbered])


def _masks(weights: Params, beside: Params, task: int) -> dict[str, Tensor]:
    """What a task uses: what it and earlier ones own, or its own mask."""
    owned = {
        name.removeprefix(OWNER): (owner > 0) & (owner <= task + 1)
        for name, owner in beside.items()
        if name.startswith(OWNER)
    }
    start = f"{MASK}{task}."
    packed = {name.removeprefix(start): bits for name, bits in beside.items() if name.startswith(start)}
    return {**owned, **{name: unpack(bits, weights[name].shape) for name, bits in packed.items()}}
