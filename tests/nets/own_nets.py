"""Networks as users write them: a transformer block, a depthwise-separable net, a net without BatchNorm."""

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Rows of an 8×8 image as tokens; ends in logits."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.place = nn.Parameter(0.1 * torch.randn(8, width))
        self.block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.block(self.embed(x.squeeze(1)) + self.place).mean(1))


class Separable(nn.Module):
    """Depthwise and pointwise convolutions with BatchNorm; ends in features."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).mean((2, 3))


class Plain(nn.Module):
    """No normalisation, a strided convolution, and a `view` as in many a tutorial; ends in logits."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.one = nn.Conv2d(1, width, 3, padding=1)
        self.two = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.hidden = nn.Linear(16 * width, 32)
        self.classify = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.two(torch.relu(self.one(x)))).view(len(x), -1)
        return self.classify(torch.relu(self.hidden(x)))


class Recurrent(nn.Module):
    """Rows of an 8×8 image as a sequence; nothing to prune."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.read = nn.GRU(8, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(x.squeeze(1))[0][:, -1]


OWN = [Attention, Separable, Plain]


def made(kind: type[nn.Module], seed: int = 0) -> nn.Module:
    """One with the weights of a seed, without a trace in torch's generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return kind()


class Odd(nn.Module):
    """Learns as `Plain` does, but for what a test does to it."""

    def __init__(self, forward=lambda net, x: net(x)) -> None:
        super().__init__()
        self.net = made(Plain)
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self.net, x)
