"""What the reference loops share: network, augmentation, reservoir, the loop over tasks, and evaluation.

Plain torch. A method is a function that makes the loss of a step; see `er.py` and `derpp.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from time import process_time
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad, relu


class Task(NamedTuple):
    """The columns of a task's classes, and its images as uint8 [N, C, H, W] with labels."""

    classes: tuple[int, ...]
    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass(frozen=True)
class Settings:
    """Plain SGD: no momentum, no decay, a constant rate."""

    lr: float = 0.03
    epochs: int = 5  # of each task
    batch: int = 32
    buffer: int = 500  # stored examples
    mask: bool = False  # the current examples compete only among the classes of their batch
    seed: int = 0
    mean: tuple[float, ...] = (0.4914, 0.4822, 0.4465)
    std: tuple[float, ...] = (0.2470, 0.2435, 0.2616)
    padding: int = 4  # of the random crop
    flip: bool = True


class Result(NamedTuple):
    """Accuracy after the last task, as fractions, and CPU seconds of each epoch, task by task."""

    class_il: float
    task_il: float
    seconds: list[list[float]]


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.conv2, self.norm2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        same = stride == 1 and inside == outside
        narrow = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.shortcut = nn.Identity() if same else narrow

    def forward(self, x: Tensor) -> Tensor:
        """Residual of a batch."""
        return relu(self.norm2(self.conv2(relu(self.norm1(self.conv1(x))))) + self.shortcut(x))


def resnet18(width: int, classes: int, seed: int) -> nn.Module:
    """ResNet-18 with the stem for small images: 3×3, no pooling. Weights are torch's own defaults."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        widths = [width, width, width, 2 * width, 2 * width, 4 * width, 4 * width, 8 * width, 8 * width]
        blocks = [Block(a, b, 1 if a == b else 2) for a, b in pairwise(widths)]
        stem = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, classes))


class Memory:
    """Reservoir sampling: after n examples each of them is stored with probability capacity / n."""

    def __init__(self, capacity: int, numbers: torch.Generator) -> None:
        self.capacity, self.numbers, self.seen = capacity, numbers, 0
        self.stored: list[Tensor] = []

    def add(self, *columns: Tensor) -> None:
        """Offer a batch of images, labels and, for DER++, logits."""
        if not self.stored:
            self.stored = [column.new_zeros(self.capacity, *column.shape[1:]) for column in columns]
        for row in range(len(columns[0])):
            self.seen += 1
            place = self.seen - 1
            if place >= self.capacity:
                place = int(torch.randint(self.seen, (1,), generator=self.numbers))
            if place < self.capacity:
                for store, column in zip(self.stored, columns):
                    store[place] = column[row]

    def draw(self, count: int) -> list[Tensor]:
        """So many different examples at random."""
        rows = torch.randperm(min(self.seen, self.capacity), generator=self.numbers)[:count]
        return [store[rows] for store in self.stored]


class Step(NamedTuple):
    """What the loss of a step is made of."""

    model: nn.Module
    x: Tensor  # augmented
    y: Tensor
    memory: Memory | None  # None in the first task: there is nothing older to replay
    augment: Callable[[Tensor], Tensor]
    settings: Settings


Loss = Callable[[Step], tuple[Tensor, Tensor]]
"""The loss of a step, and the logits of its current examples."""


def current_loss(logits: Tensor, y: Tensor, mask: bool) -> Tensor:
    """Cross-entropy on the current examples; the mask hides the classes that are not in the batch."""
    if mask:
        hidden = torch.ones(logits.shape[1], dtype=torch.bool).index_fill(0, y, False)
        logits = logits.masked_fill(hidden, -1e4)
    return cross_entropy(logits, y)


def fine_tuning(step: Step) -> tuple[Tensor, Tensor]:
    """Cross-entropy on whatever arrives."""
    logits = step.model(step.x)
    return current_loss(logits, step.y, step.settings.mask), logits


def bare(tasks: Sequence[Task], model: nn.Module, settings: Settings) -> Iterator[float | Result]:
    """Fine-tuning: what a step costs that neither stores nor replays."""
    return train(tasks, model, fine_tuning, replace(settings, buffer=0))


def train(
    tasks: Sequence[Task], model: nn.Module, loss_of: Loss, settings: Settings, keep_logits: bool = False
) -> Iterator[float | Result]:
    """Learn task after task: CPU seconds of each epoch as it ends, at last the result."""
    numbers = torch.Generator().manual_seed(settings.seed)
    memory = Memory(settings.buffer, numbers)
    augment = partial(augmented, settings=settings, numbers=numbers)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
    seconds: list[list[float]] = []
    for number, task in enumerate(tasks):
        seconds.append([])
        for _ in range(settings.epochs):
            began = process_time()
            model.train()
            for rows in batches(torch.randperm(len(task.y), generator=numbers), settings.batch):
                raw, y = task.x[rows], task.y[rows]
                loss, logits = loss_of(Step(model, augment(raw), y, memory if number else None, augment, settings))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if settings.buffer:
                    memory.add(raw, y, *([logits.detach()] if keep_logits else []))
            seconds[-1].append(process_time() - began)
            yield seconds[-1][-1]
    yield Result(*accuracy(model, tasks, settings), seconds)


def batches(order: Tensor, size: int) -> list[Tensor]:
    """Cut into batches; a single example left over joins the batch before it, as BatchNorm cannot normalise one."""
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def normalised(raw: Tensor, settings: Settings) -> Tensor:
    """Pixels as the network reads them."""
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (settings.mean, settings.std))
    return (raw / 255 - mean) / std


def augmented(raw: Tensor, settings: Settings, numbers: torch.Generator) -> Tensor:
    """A random crop of the padded image, mirrored or not, for each example of its own."""
    count, _, height, width = raw.shape
    top, left = torch.randint(2 * settings.padding + 1, (2, count, 1), generator=numbers)
    mirrored = torch.randint(2, (count, 1), generator=numbers).bool() & settings.flip
    across = torch.arange(width)
    rows, columns = top + torch.arange(height), left + torch.where(mirrored, across.flip(0), across)
    images = pad(raw, [settings.padding] * 4).permute(0, 2, 3, 1)
    crops = images[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    # contiguous: channels-last inputs make torch train strided 1×1 convolutions in that layout, where oneDNN corrupts
    # memory if they are as narrow as here (docs/decisions.md)
    return normalised(crops.permute(0, 3, 1, 2).contiguous(), settings)


@torch.no_grad()
def accuracy(model: nn.Module, tasks: Sequence[Task], settings: Settings) -> tuple[float, float]:
    """Class-IL and Task-IL on the test images: means over the tasks."""
    model.eval()
    among_all, among_own = [], []
    for task in tasks:
        own = torch.tensor(task.classes)
        logits = torch.cat([model(normalised(part, settings)) for part in task.test_x.split(256)])
        among_all.append((logits.argmax(1) == task.test_y).float().mean().item())
        among_own.append((own[logits[:, own].argmax(1)] == task.test_y).float().mean().item())
    return sum(among_all) / len(tasks), sum(among_own) / len(tasks)
