"""What the benchmarks share: random images (the work is the same as with real ones), trainers on them, and clocks."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import torch
from rich.progress import track

from esacl.allocator import keep_freed_memory
from esacl.assembly import assemble
from esacl.config import Config
from esacl.methods import resolve
from esacl.streams.base import Examples, Stream, Task
from esacl.streams.inputs import ImageInputs
from esacl.training.events import StepDone
from esacl.training.trainer import Trainer

MEAN, STD, PADDING = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26), 4


def random_stream(sizes: Sequence[int]) -> Stream:
    """Tasks of two classes of random 32×32 images, with so many training examples."""
    numbers = torch.Generator().manual_seed(0)
    tasks = []
    for index, size in enumerate(sizes):
        x = torch.randint(0, 256, (size, 3, 32, 32), generator=numbers, dtype=torch.uint8)
        y = 2 * index + torch.arange(size) % 2
        train, few = Examples(x, y), Examples(x[:2], y[:2])
        tasks.append(Task(index, (2 * index, 2 * index + 1), train, few, few))
    names = tuple(f"class {column}" for column in range(2 * len(sizes)))
    inputs = ImageInputs(MEAN, STD, PADDING, flip=True)
    return Stream("random", names, tuple(tasks), tuple(tasks), inputs)


def trainer_of(stream: Stream, method: str, epochs: int, settings: Mapping[str, Any]) -> Trainer:
    """A trainer of a method with the small ResNet; `settings` are tables of options."""
    keep_freed_memory()  # as every run does
    plain = {"method": method, "net": {"backbone": "resnet10"}, "train": {"epochs": epochs}}
    config = resolve(Config.from_mapping({**plain, **settings}), stream)
    return assemble(config, stream, torch.device("cpu"))


def steps_of(trainer: Trainer, stage: int) -> Iterator[None]:
    """One item for each step of a stage; whatever comes before it is passed through."""
    for event in trainer.run():
        if isinstance(event, StepDone) and event.task == stage:
            yield


def seconds_of(steps: Iterator[None], count: int) -> list[float]:
    """Seconds of each of the next steps."""
    seconds = []
    for _ in range(count):
        began = perf_counter()
        next(steps)
        seconds.append(perf_counter() - began)
    return seconds


def in_alternation(
    trainers: Mapping[str, Trainer], stage: int, rounds: int, count: int
) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Seconds of a step of each trainer in each round, and the multiply-adds that a step executes."""
    steps = {name: steps_of(trainer, stage) for name, trainer in trainers.items()}
    for each in track(list(steps.values()), description="up to the task"):
        seconds_of(each, count)
    before = {name: trainer.net.meter.executed_macs["train"] for name, trainer in trainers.items()}
    seconds = [
        {name: median(seconds_of(each, count)) for name, each in steps.items()}
        for _ in track(range(rounds), description="measuring")
    ]
    executed = {
        name: (trainer.net.meter.executed_macs["train"] - before[name]) / (rounds * count)
        for name, trainer in trainers.items()
    }
    return seconds, executed
