"""Kinds of layers, by inspection: whose weights may be pruned, and which of them take statistics of batches."""

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, conv2d

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
"""Layers whose running statistics move in training mode."""

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)
"""Layers that multiply what they read with a weight."""

PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
"""Weights of attention that are no layers of their own; its output is one (`out_proj`)."""


class Pointwise(nn.Conv2d):
    """A 1×1 convolution of every `stride`-th pixel, without bias. It picks the pixels first and convolves them densely.

    The numbers are those of a strided convolution. That one corrupts memory when it is trained in the channels-last
    layout with few input channels (https://github.com/uxlfoundation/oneDNN/issues/6035).
    """

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__(inside, outside, 1, stride, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """One output pixel for each pixel that is picked."""
        picked = avg_pool2d(input, 1, self.stride)  # keeps the layout, also of its gradient, which a slice does not
        return conv2d(picked, self.weight)


def weight_names(model: nn.Module) -> set[str]:
    """Names of the weights of linear layers, convolutions of any kind and attention."""
    found: set[str] = set()
    for name, module in model.named_modules():
        own: tuple[str, ...] = ("weight",) if isinstance(module, WEIGHTED) else ()
        own = PROJECTIONS if isinstance(module, nn.MultiheadAttention) else own
        found |= {f"{name}.{each}" if name else each for each in own}
    return found


def fits_channels_last(model: nn.Module) -> bool:
    """Whether the model has convolutions, all of which are safe in the channels-last layout.

    Not so in a network of the user's own, whose forward may call `view`.

    Training strided 1×1 convolutions of fewer than 16 input channels corrupts memory there on AVX-512 processors
    (below 8 on AVX2; https://github.com/uxlfoundation/oneDNN/issues/6035). A `Pointwise` is not such a one.
    """
    if getattr(model, "own", False):
        return False
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    return bool(convolutions) and not any(_corrupts(convolution) for convolution in convolutions)


def _corrupts(layer: nn.Conv2d) -> bool:
    """Whether training the convolution in the channels-last layout may write where it should not."""
    strided = layer.kernel_size == (1, 1) and max(layer.stride) > 1
    return strided and layer.in_channels < 16 and not isinstance(layer, Pointwise)
