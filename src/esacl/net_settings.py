"""The settings of a network: which one, what it begins with, and what of it stays as it is."""

from dataclasses import dataclass

from esacl.options import option


@dataclass(frozen=True, slots=True)
class NetConfig:
    """Which network."""

    backbone: str = option(
        "auto",
        "auto, mlp, cnn, resnet10, resnet18, efficientnet-lite0, mobilenet-v2, or code of your own: "
        "package.module:function",
    )
    width: int | None = option(None, "channels of the first stage (default: the backbone's own)", low=1, high=4096)
    weights: str | None = option(
        None,
        "file of weights to start with (.safetensors, .pth), or none (default: those of the backbone's package, where "
        "it has one)",
    )
    freeze: str | None = option(
        None,
        "layers that stay as they are: none, all, names such as first,blocks.0, or until:LAYER (default: none, or all "
        "where the method trains nothing)",
    )
    normalise: str | None = option(
        None, "scale of images: data, imagenet, or MEANS/SPREADS (default: that of the weights where known, else data)"
    )
    weights_digest: str | None = option(None, "SHA-256 of the weights, as a run recorded it: others are refused")
