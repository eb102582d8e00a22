"""The engine's overhead: our ER step against a hand-written bare torch loop that does the same work.

Both train the small ResNet on the same synthetic 32×32 images at batch 32, in the second task (so that replay is
on), in the same process and in alternation; the figure is the ratio of the median step times. Run: make bench
"""

import argparse
from collections.abc import Iterator
from statistics import median

import torch
from rich.progress import track
from synthetic import MEAN, PADDING, STD, random_stream, seconds_of, steps_of, trainer_of
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from esacl.nets import build_model
from esacl.streams.base import Stream

BATCH, BUFFER, LR, MOMENTUM = 32, 500, 0.01, 0.9
EXAMPLES = 2000  # of each task


def engine(stream: Stream) -> Iterator[None]:
    """Steps of the library's trainer in the second task, with a full memory of the first."""
    options = {"update": {"lr": LR, "momentum": MOMENTUM, "schedule": "constant"}, "objective": {"buffer": BUFFER}}
    trainer = trainer_of(stream, "er", 1000, options)
    trainer.parts.objective.memory.add(stream.tasks[0].train.x, stream.tasks[0].train.y)  # type: ignore[attr-defined]
    trainer.position.stage = 1
    return steps_of(trainer, 1)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="alternations between the two loops")
    parser.add_argument("--steps", type=int, default=20, help="steps of each loop in a round")
    given = parser.parse_args()
    stream = random_stream([EXAMPLES, EXAMPLES])
    ours, theirs = engine(stream), bare(stream)
    seconds_of(ours, given.steps), seconds_of(theirs, given.steps)  # warm up
    rounds = track(range(given.rounds), description="measuring")
    pairs = [(median(seconds_of(ours, given.steps)), median(seconds_of(theirs, given.steps))) for _ in rounds]
    ratios = sorted(a / b for a, b in pairs)
    print(f"ER step, small ResNet (width 16), batch {BATCH} + {BATCH} replayed, {torch.get_num_threads()} threads")
    print(f"  bare torch loop  {1e3 * median(b for _, b in pairs):6.2f} ms")
    print(f"  esacl            {1e3 * median(a for a, _ in pairs):6.2f} ms")
    print(
        f"  ratio            {median(ratios):6.3f}   (rounds from {ratios[0]:.3f} to {ratios[-1]:.3f}; target ≤ 1.05)"
    )


if __name__ == "__main__":
    main()
