"""Expansion: weights that no task has kept start anew into the next one."""

import torch
from torch import nn

from esacl.rng import generator
from esacl.types import Params


@torch.no_grad()
def expand(weights: Params, free: Params, how: str, seed: int, task: int, initial: Params | None = None) -> None:
    """Give free weights fresh values: drawn as those of a new network ("kaiming"), zero, or those of the beginning."""
    for name, mask in free.items():
        weight = weights[name]
        fresh = initial[name] if how == "initial" and initial else torch.zeros(weight.shape)
        if how == "kaiming":
            draw = generator(seed, "expand", task, name)
            nn.init.kaiming_normal_(fresh, nonlinearity="relu", generator=draw)
        weight.copy_(torch.where(mask, fresh.to(weight.device), weight))
