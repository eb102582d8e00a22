"""Networks of one's own that tracing understands, written in as many ways as users write them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from esacl.nets import Network, own_net
from tests.builders import CPU
from tests.nets.own_nets import made


class Vgg(nn.Module):
    """Pairs of convolutions with BatchNorm, pooled; flattened maps; a hidden layer with BatchNorm; ends in logits."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 1
        for out in (width, width, 2 * width):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            channels = out
            if len(layers) != 3:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.hidden = nn.Linear(4 * 2 * width, 10)
        self.norm = nn.BatchNorm1d(10)
        self.classifier = nn.Linear(10, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        x = x.view(-1, self.hidden.in_features)
        return self.classifier(F.relu(self.norm(self.hidden(x))))


class Before(nn.Module):
    """A residual block that normalises first, with a depthwise layer inside."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inside), nn.Conv2d(inside, outside, 1, bias=False)
        self.bn2, self.deep = nn.BatchNorm2d(outside), nn.Conv2d(outside, outside, 3, stride, 1, groups=outside)
        self.bn3, self.conv2 = nn.BatchNorm2d(outside), nn.Conv2d(outside, outside, 1, bias=False)
        self.short = nn.Conv2d(inside, outside, 1, stride) if stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        begun = F.relu(self.bn1(x))
        out = self.deep(F.silu(self.bn2(self.conv1(begun))))
        out = self.conv2(self.bn3(out).relu_())
        out += x if self.short is None else self.short(begun)
        return out


class Residual(nn.Module):
    """Residual blocks of two widths, one more identity than it needs; ends in features."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.layer1 = nn.Sequential(Before(width, width, 1), Before(width, width, 1))
        self.layer2 = nn.Sequential(Before(width, 2 * width, 2), Before(2 * width, 2 * width, 1))
        self.last = nn.BatchNorm2d(2 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.last(self.layer2(self.layer1(self.stem(x)))))
        return torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)


class Hidden(nn.Module):
    """Three linear layers, one of them around an identity; ends in features."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.one(x.reshape(x.shape[0], -1)))
        return torch.tanh(self.three(x + torch.relu(self.two(x))))


class Excited(nn.Module):
    """Channels that are weighted by what all of them are on average; ends in a map, flattened."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.down, self.up = nn.Conv2d(width, 6, 1), nn.Conv2d(6, width, 1)
        self.norm = nn.BatchNorm2d(width)
        self.flat = nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        weight = torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))
        return self.flat(F.max_pool2d(x * weight, 2))


TRACED = {"vgg": Vgg, "residual": Residual, "hidden": Hidden, "excited": Excited}
SHAPE = (1, 8, 8)


def traced(name: str, classes: int = 6) -> Network:
    """One of them, as the network of a run."""
    return Network(own_net(made(TRACED[name]), SHAPE, 0).model(classes, 0), SHAPE, CPU)
