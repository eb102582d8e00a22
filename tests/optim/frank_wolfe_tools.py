"""Parameters, masks and gradients to try the optimiser on."""

import torch
from torch import Tensor, nn

SCOPES = ("layer", "global")
MODES = ("average", "accumulate")
RESCALES = ("none", "gradient", "diameter")
SCALES = ("norm", "absolute")
SHAPES = [(4, 5), (7,), (2, 3, 2, 2)]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def parameters(shapes: list[tuple[int, ...]], seed: int = 0, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    draw = generator(seed)
    return [nn.Parameter(torch.randn(*shape, generator=draw, dtype=dtype)) for shape in shapes]


def masks(params: list[nn.Parameter], share: float, seed: int = 1) -> dict[Tensor, Tensor]:
    draw = generator(seed)
    return {param: torch.rand(param.shape, generator=draw) < share for param in params}


def give_gradients(params: list[nn.Parameter], draw: torch.Generator, size: float = 1.0) -> None:
    for param in params:
        param.grad = size * torch.randn(param.shape, generator=draw, dtype=param.dtype)


def values(params: list[nn.Parameter]) -> list[Tensor]:
    return [param.detach().clone() for param in params]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
