"""The engine's overhead: our ER step against a hand-written bare torch loop that does the same work.

Both train the small ResNet on the same synthetic 32×32 images at batch 32, in the second task (so that replay is
on), in the same process and in alternation; the figure is the ratio of the median step times. Run: make bench
"""

import argparse
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter

import torch
from rich.progress import track
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from esacl.config import Config
from esacl.nets import Network, build_model
from esacl.recipes import build_parts, resolve
from esacl.streams.base import Examples, Stream, Task
from esacl.streams.inputs import ImageInputs
from esacl.training.events import StepDone
from esacl.training.trainer import Trainer
from esacl.types import Context

BATCH, BUFFER, PADDING, LR, MOMENTUM = 32, 500, 4, 0.01, 0.9
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
EXAMPLES = 2000  # of each task


def images() -> Stream:
    """Two tasks of two classes of random images: the work is the same as with real ones."""
    numbers = torch.Generator().manual_seed(0)
    tasks = []
    for index in range(2):
        x = torch.randint(0, 256, (EXAMPLES, 3, 32, 32), generator=numbers, dtype=torch.uint8)
        y = 2 * index + torch.randint(0, 2, (EXAMPLES,), generator=numbers)
        train, few = Examples(x, y), Examples(x[:2], y[:2])
        tasks.append(Task(index, (2 * index, 2 * index + 1), train, few, few))
    inputs = ImageInputs(MEAN, STD, PADDING, flip=True)
    return Stream("random", ("a", "b", "c", "d"), tuple(tasks), tuple(tasks), inputs)


def engine(stream: Stream) -> Iterator[None]:
    """Steps of the library's trainer; the first task is passed through before the first is returned."""
    settings = {"method": "er", "net": {"backbone": "resnet10"}, "train": {"epochs": 1000, "batch_size": BATCH}}
    options = {"update": {"lr": LR, "momentum": MOMENTUM, "schedule": "constant"}, "objective": {"buffer": BUFFER}}
    config = resolve(Config.from_mapping({**settings, **options}), stream)
    device = torch.device("cpu")
    context = Context(4, 2, BATCH, 1000, 0, "none", device, stream.inputs)
    net = Network(build_model("resnet10", 16, stream.shape, 4, seed=0), stream.shape, device)
    trainer = Trainer(net, build_parts(config, context), stream, config.train, seed=0)
    trainer.parts.objective.memory.add(stream.tasks[0].train.x, stream.tasks[0].train.y)  # type: ignore[attr-defined]
    trainer.position.stage = 1
    for event in trainer.run():
        if isinstance(event, StepDone):
            yield


def bare(stream: Stream) -> Iterator[None]:
    """The same work in plain torch: crop, flip, two forward passes, one backward pass, SGD, reservoir."""
    first, second = (task.train for task in stream.tasks)
    numbers = torch.Generator().manual_seed(0)
    model = build_model("resnet10", 16, stream.shape, 4, seed=0).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)
    kept = torch.randperm(len(first), generator=numbers)[:BUFFER]
    memory_x, memory_y, seen = first.x[kept].clone(), first.y[kept].clone(), len(first)

    def prepare(raw: Tensor) -> Tensor:
        n = len(raw)
        top, left = torch.randint(0, 2 * PADDING + 1, (2, n, 1), generator=numbers)
        flip = torch.randint(0, 2, (n, 1), generator=numbers).bool()
        across = torch.arange(32)
        rows, columns = top + across, left + torch.where(flip, 31 - across, across)
        where = torch.arange(n)[:, None, None]
        crops = pad(raw, [PADDING] * 4).permute(0, 2, 3, 1)[where, rows[:, :, None], columns[:, None, :]]
        return (crops.permute(0, 3, 1, 2) / 255 - mean) / std

    while True:
        for index in torch.randperm(len(second), generator=numbers).split(BATCH):
            raw, y = second.x[index], second.y[index]
            drawn = torch.randperm(BUFFER, generator=numbers)[:BATCH]
            x, old = prepare(raw), prepare(memory_x[drawn])
            loss = cross_entropy(model(x).logits, y) + cross_entropy(model(old).logits, memory_y[drawn])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            places = (torch.rand(len(y), generator=numbers) * torch.arange(seen + 1, seen + len(y) + 1)).long()
            stays = places < BUFFER
            memory_x[places[stays]], memory_y[places[stays]] = raw[stays], y[stays]
            seen += len(y)
            yield


def clock(steps: Iterator[None], count: int) -> Callable[[], list[float]]:
    """A function that takes `count` steps and returns the seconds of each."""

    def measure() -> list[float]:
        seconds = []
        for _ in range(count):
            began = perf_counter()
            next(steps)
            seconds.append(perf_counter() - began)
        return seconds

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="alternations between the two loops")
    parser.add_argument("--steps", type=int, default=20, help="steps of each loop in a round")
    given = parser.parse_args()
    stream = images()
    ours, theirs = clock(engine(stream), given.steps), clock(bare(stream), given.steps)
    ours(), theirs()  # warm up
    rounds = track(range(given.rounds), description="measuring")
    pairs = [(median(ours()), median(theirs())) for _ in rounds]
    ratios = sorted(a / b for a, b in pairs)
    print(f"ER step, small ResNet (width 16), batch {BATCH} + {BATCH} replayed, {torch.get_num_threads()} threads")
    print(f"  bare torch loop  {1e3 * median(b for _, b in pairs):6.2f} ms")
    print(f"  esacl            {1e3 * median(a for a, _ in pairs):6.2f} ms")
    print(
        f"  ratio            {median(ratios):6.3f}   (rounds from {ratios[0]:.3f} to {ratios[-1]:.3f}; target ≤ 1.05)"
    )


if __name__ == "__main__":
    main()
