"""Channels of BatchNorm that stay still: what they make of an input no longer depends on the batch, in training too."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from esacl.nets.network import Network
from esacl.types import Params, State


class StillChannels:
    """Channels that go on with the statistics they have, while their neighbours are normalised by the batch.

    In training mode they answer as in evaluation mode, and whatever moves running statistics leaves theirs alone.
    """

    def __init__(self, net: Network) -> None:
        modules = net.model.named_modules()
        self._norms = {name: module for name, module in modules if isinstance(module, nn.BatchNorm2d)}
        self._kept: dict[str, Params] = {}  # channels, mean and variance by layer
        for name, norm in self._norms.items():
            norm.register_forward_hook(self._mending(name))

    @torch.no_grad()
    def keep(self, channels: Mapping[str, Tensor]) -> None:
        """From now on these channels of these layers stay as they are; those of before among them."""
        for name, chosen in channels.items():
            norm = self._norms[name]
            mean, variance = norm.get_buffer("running_mean"), norm.get_buffer("running_var")
            self._kept[name] = {"channels": chosen.clone(), "mean": mean.clone(), "variance": variance.clone()}

    def restart(self) -> None:
        """All other channels forget their statistics."""
        for name, norm in self._norms.items():
            norm.reset_running_stats()
            self._restore(name, norm)

    def _restore(self, name: str, norm: nn.BatchNorm2d) -> None:
        """The statistics of still channels again, in new tensors: autograd wants to find the old ones unchanged."""
        kept = self._kept.get(name)
        if kept is not None and norm.running_mean is not None and norm.running_var is not None:
            norm.running_mean = torch.where(kept["channels"], kept["mean"], norm.running_mean)
            norm.running_var = torch.where(kept["channels"], kept["variance"], norm.running_var)

    def _mending(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor | None]:
        """A hook that replaces what a layer answers in training mode."""

        def mend(norm: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> Tensor | None:
            kept = self._kept.get(name)
            if kept is None or not norm.training:
                return None
            assert isinstance(norm, nn.BatchNorm2d)
            self._restore(name, norm)
            scale = norm.weight * (kept["variance"] + norm.eps).rsqrt()
            still = (given[0] - _along(kept["mean"])) * _along(scale) + _along(norm.bias)
            return torch.where(_along(kept["channels"]), still.to(out.dtype), out)

        return mend

    def state_dict(self) -> State:
        """The channels and their statistics."""
        return {name: dict(kept) for name, kept in self._kept.items()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        device = {name: norm.weight.device for name, norm in self._norms.items()}
        self._kept = {
            name: {key: value.to(device[name]) for key, value in kept.items()} for name, kept in state.items()
        }


def _along(channels: Tensor) -> Tensor:
    """A value for each channel, to be combined with maps."""
    return channels.view(1, -1, 1, 1)
