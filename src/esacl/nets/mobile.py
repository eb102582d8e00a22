"""MobileNetV2 and EfficientNet-Lite: inverted residuals, for which pre-trained weights are at hand.

A block widens its input by a 1×1 convolution, filters each channel by itself, and narrows it again; where the shape
stays, it adds its input (Sandler et al. 2018; Tan & Le 2019).
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, relu6


@dataclass(frozen=True, slots=True)
class Plan:
    """An architecture: the first and the last width, and rows of blocks between them."""

    first: int
    rows: tuple[tuple[int, int, int, int, int], ...]  # widening, channels, blocks, stride of the first, kernel
    last: int
    eps: float  # of BatchNorm
    same: bool  # padded so that a stride divides the size, rounded up, as TensorFlow does; else by half the kernel


LITE0 = Plan(
    32,
    (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ),
    1280,
    1e-3,
    True,
)
MOBILENET_V2 = Plan(
    32,
    (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 32, 3, 2, 3),
        (6, 64, 4, 2, 3),
        (6, 96, 3, 1, 3),
        (6, 160, 3, 2, 3),
        (6, 320, 1, 1, 3),
    ),
    1280,
    1e-5,
    False,
)


class Convolution(nn.Module):
    """Convolution, BatchNorm and, where asked for, ReLU cut at 6."""

    def __init__(
        self, plan: Plan, inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1, active: bool = True
    ) -> None:
        super().__init__()
        kind = SamePadded if plan.same and stride > 1 else nn.Conv2d  # without a stride both paddings are the same
        self.conv = kind(inside, outside, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outside, eps=plan.eps)
        self._active = active

    def forward(self, x: Tensor) -> Tensor:
        """Maps of a batch."""
        x = self.norm(self.conv(x))
        return relu6(x, inplace=True) if self._active else x


class SamePadded(nn.Conv2d):
    """A strided convolution whose output is the input's size over the stride, rounded up; odd padding goes behind."""

    def forward(self, input: Tensor) -> Tensor:
        """Padded as TensorFlow does it."""
        sides: list[int] = []
        for size, kernel, stride in zip(input.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1]):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            sides += [total // 2, total - total // 2]
        return conv2d(pad(input, sides), self.weight, None, self.stride, 0, self.dilation, self.groups)


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow; and add the input where the shape is the same."""

    def __init__(self, plan: Plan, inside: int, outside: int, widening: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = inside * widening
        self.expand = Convolution(plan, inside, wide, 1) if widening > 1 else nn.Identity()
        self.depthwise = Convolution(plan, wide, wide, kernel, stride, groups=wide)
        self.project = Convolution(plan, wide, outside, 1, active=False)
        self._adds = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Maps of a batch."""
        out: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + out if self._adds else out


class MobileNet(nn.Module):
    """A first convolution, inverted residuals, a wide last convolution; features are the mean over its maps."""

    def __init__(self, plan: Plan, shape: tuple[int, int, int], width: int) -> None:
        super().__init__()
        inside = width
        self.first = Convolution(plan, shape[0], width, 3, 2)
        blocks: list[nn.Module] = []
        for widening, channels, count, stride, kernel in plan.rows:
            outside = round(channels * width / plan.first)
            for number in range(count):
                blocks.append(InvertedResidual(plan, inside, outside, widening, 1 if number else stride, kernel))
                inside = outside
        self.blocks = nn.Sequential(*blocks)
        self.features = round(plan.last * width / plan.first)
        self.last = Convolution(plan, inside, self.features, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Features of a batch."""
        answered: Tensor = self.last(self.blocks(self.first(x)))
        return answered.mean((2, 3))
