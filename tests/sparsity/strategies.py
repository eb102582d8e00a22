"""Pruning strategies on small networks, and what they do without any training."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from esacl.nets import Network
from esacl.rng import generator
from esacl.sparsity.esacl import Esacl, EsaclOptions
from esacl.streams.base import Examples, Task
from tests.builders import context, network, stream

EXAMPLES = stream().tasks[0]


def pruning(net: Network, tasks: int = 3, seed: int = 0, **options: Any) -> Esacl:
    """The strategy, attached to a network."""
    made = Esacl(EsaclOptions(**options), context(tasks=tasks, seed=seed))
    made.attach(net)
    return made


def task(index: int) -> Task:
    """A task of that number."""
    return replace(EXAMPLES, index=index)


def images(*values: int) -> Examples:
    """Images of one pixel each."""
    x = torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1)
    return Examples(x, torch.zeros(len(x), dtype=torch.int64))


@torch.no_grad()
def scramble(net: Network, strategy: Esacl, number: int, decimals: int | None = None) -> None:
    """Move whatever is free, as training would; few decimals give ties and zeros."""
    for name, kept in strategy.kept.items():
        new = torch.randn(kept.shape, generator=generator(number, name))
        if decimals is not None:
            new = new.round(decimals=decimals)
        net.stored[name].copy_(torch.where(kept, net.stored[name], new))


def prunable(net: Network) -> dict[str, Tensor]:
    """A copy of the weights that may be pruned."""
    return {name: net.stored[name].detach().clone() for name in net.partition.prunable}


def places(masks: dict[str, Tensor]) -> set[tuple[str, int]]:
    """Where masks are true."""
    return {(name, at) for name, mask in masks.items() for at in mask.flatten().nonzero().squeeze(1).tolist()}


def count(masks: dict[str, Tensor]) -> int:
    """How many places masks have."""
    return sum(int(mask.sum()) for mask in masks.values())


def small(width: int = 8, **more: Any) -> Network:
    """An MLP whose layers have unequal sizes."""
    return network("mlp", width, **more)
