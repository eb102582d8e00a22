"""What the channels-last layout is worth: one SGD step of each convolutional backbone in both layouts, as a ratio.

Same process, in alternation, batch 32 of 32×32 images; the figure is the ratio of the median step times.
Run: make bench
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from torch.nn.functional import cross_entropy

from esacl.nets import build_model

SHAPE, BATCH, CLASSES = (3, 32, 32), 32, 10
NETWORKS = [("cnn", 32), ("resnet18", 10), ("resnet10", 16), ("resnet10", 32), ("resnet18", 20), ("resnet18", 64)]


def stepper(backbone: str, width: int, layout: torch.memory_format) -> Callable[[], float]:
    """A function that takes one step and returns its seconds."""
    numbers = torch.Generator().manual_seed(0)
    model = build_model(backbone, width, SHAPE, CLASSES, seed=0).to(memory_format=layout)  # type: ignore[call-overload]
    x = torch.randn(BATCH, *SHAPE, generator=numbers).contiguous(memory_format=layout)
    y = torch.randint(0, CLASSES, (BATCH,), generator=numbers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> float:
        began = perf_counter()
        optimizer.zero_grad(set_to_none=True)
        cross_entropy(model(x).logits, y).backward()
        optimizer.step()
        return perf_counter() - began

    return step


def main() -> None:
    print(f"SGD step, batch {BATCH}, {torch.get_num_threads()} threads: ordinary → channels-last")
    for backbone, width in NETWORKS:
        plain, last = (stepper(backbone, width, f) for f in (torch.contiguous_format, torch.channels_last))
        plain(), last()  # warm up
        pairs = [(plain(), last()) for _ in range(6 if width == 64 else 25)]
        ordinary, other = median(a for a, _ in pairs), median(b for _, b in pairs)
        print(f"  {backbone:9} width {width:2}  {1e3 * ordinary:6.1f} → {1e3 * other:6.1f} ms   {other / ordinary:.2f}")


if __name__ == "__main__":
    main()
