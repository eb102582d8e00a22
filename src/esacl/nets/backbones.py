"""Backbones: images in, one feature vector per image out.

The residual networks have the stem for small images (3×3, no pooling), so 32×32 and 64×64 both work.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import relu

from esacl.nets.layers import Pointwise
from esacl.nets.mobile import LITE0, MOBILENET_V2, MobileNet
from esacl.nets.pretrained import LITE0_WEIGHTS, MOBILENET_V2_WEIGHTS, Pretrained

Shape = tuple[int, int, int]


class Mlp(nn.Module):
    """Two hidden layers of `width` units, no normalisation."""

    def __init__(self, shape: Shape, width: int) -> None:
        super().__init__()
        channels, height, across = shape
        self.first = nn.Linear(channels * height * across, width)
        self.second = nn.Linear(width, width)
        self.features = width

    def forward(self, x: Tensor) -> Tensor:
        """Features of a batch."""
        return relu(self.second(relu(self.first(x.flatten(1)))))


class Cnn(nn.Module):
    """Three 3×3 convolutions with BatchNorm, each followed by 2×2 pooling while the image is large enough."""

    def __init__(self, shape: Shape, width: int) -> None:
        super().__init__()
        channels, height, across = shape
        layers: list[nn.Module] = []
        for out in (width, 2 * width, 4 * width):
            layers += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            if min(height, across) >= 4:
                layers.append(nn.MaxPool2d(2))
                height, across = height // 2, across // 2
            channels = out
        self.layers = nn.Sequential(*layers)
        self.features = 4 * width

    def forward(self, x: Tensor) -> Tensor:
        """Features of a batch."""
        answered: Tensor = self.layers(x)
        return answered.mean((2, 3))


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut (1×1 where the shape changes)."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(Pointwise(inside, outside, stride), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        """Residual of a batch."""
        out = relu(self.norm1(self.conv1(x)), inplace=True)
        return relu(self.norm2(self.conv2(out)) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """Four stages of residual blocks; channels double and resolution halves from stage to stage."""

    def __init__(self, shape: Shape, width: int, blocks: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(shape[0], width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        layers: list[nn.Module] = []
        inside = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Block(inside, width << stage, stride))
                inside = width << stage
        self.blocks = nn.Sequential(*layers)
        self.features = inside

    def forward(self, x: Tensor) -> Tensor:
        """Features of a batch."""
        answered: Tensor = self.blocks(relu(self.norm(self.stem(x)), inplace=True))
        return answered.mean((2, 3))


@dataclass(frozen=True, slots=True)
class Backbone:
    """How a named backbone is built, and how it is meant to be used."""

    build: Callable[[Shape, int], nn.Module]
    width: int
    smallest: int  # height and width below which BatchNorm may be left with one value to normalise
    about: str
    pretrained: Pretrained | None = None  # weights that training starts with by default


BACKBONES = {
    "mlp": Backbone(Mlp, 256, 1, "two hidden layers; for features and very small images"),
    "cnn": Backbone(Cnn, 32, 2, "three convolutions with BatchNorm"),
    "resnet10": Backbone(lambda s, w: ResNet(s, w, (1, 1, 1, 1)), 16, 9, "small ResNet: one block a stage"),
    "resnet18": Backbone(lambda s, w: ResNet(s, w, (2, 2, 2, 2)), 64, 9, "the paper's network: two blocks a stage"),
    "efficientnet-lite0": Backbone(
        lambda s, w: MobileNet(LITE0, s, w), 32, 33, "pre-trained on ImageNet, for photos", LITE0_WEIGHTS
    ),
    "mobilenet-v2": Backbone(
        lambda s, w: MobileNet(MOBILENET_V2, s, w), 32, 33, "pre-trained on ImageNet, for photos", MOBILENET_V2_WEIGHTS
    ),
}
