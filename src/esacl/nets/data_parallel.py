"""Calls of the network shared among processes: each computes its rows of a batch, and all of them get all answers.

Every process runs the same program on the same batch; only the module is called in parts. So whatever is made of its
answers (losses, rankings, memories, masks) is the same everywhere, and the gradients of the parameters are those of
the whole batch, because they are summed over the processes where they leave the call.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.func import functional_call

from esacl.types import Outputs, Params


class Unreachable(Exception):
    """Another process does not answer any more."""


class Shares:
    """Who this process is among all, and what they exchange; nothing is exchanged while it is not `active`."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.active = False
        self.idle = False  # whether the present call has no row for this process

    def __deepcopy__(self, memo: dict[int, Any]) -> "Shares":
        return self  # a copy of a network, such as a teacher, belongs to the same process

    def bounds(self, count: int) -> tuple[int, int]:
        """The first of this process's rows among so many, and the one after its last; there may be none."""
        return count * self.rank // self.size, count * (self.rank + 1) // self.size

    def call(self, model: nn.Module, params: Params, x: Tensor) -> Outputs:
        """What the model with these parameters answers to the whole batch, as float32."""
        learnt = [name for name, value in params.items() if value.requires_grad]
        if learnt and torch.is_grad_enabled():
            params = {**params, **dict(zip(learnt, _Spread.apply(self, *(params[name] for name in learnt))))}  # type: ignore[no-untyped-call]
        first, last = self.bounds(len(x))
        self.idle = first == last
        # without a row of its own a process computes one that counts for nothing: all must exchange the same gradients
        own = functional_call(model, params, (x[:1] if self.idle else x[first:last],))
        answers = torch.cat([own.features.float(), own.logits.float()], 1)[: last - first]
        every: Tensor = _Gather.apply(self, len(x), answers)  # type: ignore[no-untyped-call]
        width = own.features.shape[1]
        return Outputs(every[:, :width], every[:, width:])

    def total(self, value: Tensor) -> Tensor:
        """Sum over all processes, for each of them to compute with; differentiable."""
        added = _Sum.apply(self, value)  # type: ignore[no-untyped-call]
        spread: Tensor = _Spread.apply(self, *added)[0]  # type: ignore[no-untyped-call]
        return spread

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        try:
            distributed.all_reduce(tensor)
        except RuntimeError as error:
            raise Unreachable(str(error)) from None
        return tensor

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Every process by itself."""
        before, self.active = self.active, False
        try:
            yield
        finally:
            self.active = before


# What follows are two pairs, each the derivative of the other, so that gradients can be differentiated again.


class _Spread(torch.autograd.Function):
    """Values that all processes have, for each of them to compute its part with; gradients of the parts add up."""

    @staticmethod
    def forward(ctx: Any, shares: Shares, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.shares = shares
        ctx.set_materialize_grads(False)
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *_where_there_are_any(_Sum, ctx.shares, gradients)


class _Sum(torch.autograd.Function):
    """Parts of values, added up over all processes in one exchange."""

    @staticmethod
    def forward(ctx: Any, shares: Shares, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.shares = shares
        ctx.set_materialize_grads(False)
        sums = shares.add_up(torch.cat([part.reshape(-1) for part in parts]))
        pieces = torch.split(sums, [part.numel() for part in parts])
        return tuple(torch.empty_like(part).copy_(piece.view(part.shape)) for part, piece in zip(parts, pieces))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *_where_there_are_any(_Spread, ctx.shares, gradients)


class _Gather(torch.autograd.Function):
    """Rows of all processes, one after the other; each takes the gradient of its own."""

    @staticmethod
    def forward(ctx: Any, shares: Shares, count: int, own: Tensor) -> Tensor:
        ctx.shares = shares
        first, last = shares.bounds(count)
        every = own.new_zeros(count, *own.shape[1:])
        every[first:last] = own
        return shares.add_up(every)  # to zeros: works for parts of different sizes, and every value stays as it is

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _Take.apply(ctx.shares, gradient)  # type: ignore[no-untyped-call]


class _Take(torch.autograd.Function):
    """This process's rows of what all processes have."""

    @staticmethod
    def forward(ctx: Any, shares: Shares, every: Tensor) -> Tensor:
        ctx.shares, ctx.count = shares, len(every)
        first, last = shares.bounds(len(every))
        return every[first:last].clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, _Gather.apply(ctx.shares, ctx.count, gradient)  # type: ignore[no-untyped-call]


def _where_there_are_any(
    function: type[_Spread] | type[_Sum], shares: Shares, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Apply to the gradients that there are: what no loss depends on has none, in any process."""
    present = [gradient for gradient in gradients if gradient is not None]
    made = iter(function.apply(shares, *present) if present else ())  # type: ignore[no-untyped-call]
    return [None if gradient is None else next(made) for gradient in gradients]


class SharedNorm(nn.BatchNorm2d):
    """BatchNorm over the batch of all processes: mean and variance are summed over them, in training mode."""

    shares: Shares

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a part of a batch by the statistics of the whole."""
        if not self.training or not self.shares.active:
            return super().forward(x)
        values = x.to(self.weight.dtype)
        counts = 0.0 if self.shares.idle else 1.0
        count = values.new_tensor([values.numel() // values.shape[1]])
        sums = self.shares.total(counts * torch.cat([values.sum((0, 2, 3)), count]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = values - mean.view(1, -1, 1, 1)
        variance = self.shares.total(counts * centred.square().sum((0, 2, 3))) / count
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach() * (count / (count - 1).clamp(min=1)))
        scale = self.weight * (variance + self.eps).rsqrt()
        return (centred * scale.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)).to(x.dtype)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics: by the momentum, or to the mean over all batches without one."""
        seen = self.get_buffer("num_batches_tracked").add_(1)
        share = 1 / float(seen) if self.momentum is None else self.momentum
        self.get_buffer("running_mean").lerp_(mean, share)
        self.get_buffer("running_var").lerp_(variance, share)


def share_norms(model: nn.Module, shares: Shares) -> None:
    """Let every BatchNorm of a model see the whole batch; parameters, names and hooks stay as they are."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.__class__ = SharedNorm
            module.shares = shares  # type: ignore[assignment]
