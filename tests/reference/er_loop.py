"""Experience replay as one would write it by hand: a torch module, torch's SGD, and a list for a buffer."""

from math import cos, pi

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from esacl.rng import derive, generator
from esacl.streams.base import Stream
from esacl.streams.loading import Loader
from tests.reference.reservoir import NaiveReservoir


def train(
    model: nn.Module, stream: Stream, epochs: int, batch_size: int, seed: int, lr: float, buffer: int
) -> nn.Module:
    """Learn the tasks in turn; order, augmentation and buffer draws use the library's numbers."""
    convolutional = any(isinstance(module, nn.Conv2d) for module in model.modules())
    layout = torch.channels_last if convolutional else torch.contiguous_format
    model = model.to(memory_format=layout)  # type: ignore[call-overload]
    memory = NaiveReservoir(buffer, generator(seed, "memory"))
    replayed = 0
    for number, task in enumerate(stream.tasks):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        loader = Loader(stream, number, task.train, batch_size, seed, torch.device("cpu"))
        model.train()
        for epoch in range(epochs):
            steps = loader.steps()
            for step, batch in enumerate(loader.epoch(epoch)):
                optimizer.param_groups[0]["lr"] = lr * 0.5 * (1 + cos(pi * (epoch + step / steps) / epochs))
                x, y = batch.x, batch.y
                if number > 0:
                    drawn = memory.draw(batch_size)
                    raw = torch.stack([image for image, _, _ in drawn])
                    labels = torch.stack([label for _, label, _ in drawn])
                    places = torch.arange(replayed, replayed + len(drawn))
                    replayed += len(drawn)
                    x = torch.cat([x, stream.inputs.augmented(raw, derive(seed, "augment replay"), places)])
                    y = torch.cat([y, labels])
                logits = model(x.contiguous(memory_format=layout)).logits
                loss = cross_entropy(logits[: len(batch)], batch.y)
                if number > 0:
                    loss = loss + cross_entropy(logits[len(batch) :], y[len(batch) :])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                memory.add(batch.raw, batch.y)
    return model
