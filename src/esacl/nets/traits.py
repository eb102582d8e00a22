"""What a network is: the properties that suitable settings depend on, whatever its name."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, slots=True)
class NetTraits:
    """Properties of a network, found from its modules."""

    batchnorm: bool  # whether any layer is followed by BatchNorm
    convolutions: bool
    parameters: int
    pretrained: bool = False  # whether training begins with weights that were learnt elsewhere

    @staticmethod
    def of(module: nn.Module) -> "NetTraits":
        """The properties of a module; its weights are not read, so they may be on the meta device.

        >>> NetTraits.of(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
        NetTraits(batchnorm=True, convolutions=True, parameters=120, pretrained=False)
        """
        layers = list(module.modules())
        return NetTraits(
            batchnorm=any(isinstance(layer, _BatchNorm) for layer in layers),
            convolutions=any(isinstance(layer, _CONVOLUTIONS) for layer in layers),
            parameters=sum(parameter.numel() for parameter in module.parameters()),
        )


class ByNorm(NamedTuple):
    """A value for networks with BatchNorm, and one for those without."""

    batchnorm: float
    plain: float

    def suited(self, net: NetTraits) -> float:
        """The value for a network."""
        return self.batchnorm if net.batchnorm else self.plain
