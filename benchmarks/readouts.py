"""What fitting a readout after every task takes, as a share of the time and the arithmetic of training.

One run is trained, the small ResNet on Split CIFAR-10, and every readout is fitted on what it ended
with, several times. After the last task there are most classes, so this is the dearest fit. Run: make bench-readouts
"""

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

import esacl

TARGET = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="er")
    parser.add_argument("--stream", default="split-cifar10")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--limit", type=int, default=300, help="training images of a class")
    parser.add_argument("--rounds", type=int, default=3, help="fits of each readout")
    given = parser.parse_args()
    settings = esacl.Config.of(
        method=given.method, stream=given.stream, epochs=given.epochs, limit_per_class=given.limit, split="validation"
    )
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        results = esacl.run(settings, out)
        esacl.compare_readouts(out)  # the first of everything is slow
        rounds = [esacl.compare_readouts(out) for _ in range(given.rounds)]
    training, macs = results.seconds["train"], results.flops.executed / 2
    print(
        f"{given.method} on {given.stream}, {given.epochs} epochs, {torch.get_num_threads()} threads: {training:.1f} s"
    )
    print(f"{'':16}  Task-IL  Class-IL   ms a fit  of the time  of the MACs    target")
    for rows in zip(*rounds):
        row = rows[0]
        if row.refused is not None:
            continue
        share = median(each.share or 0.0 for each in rows)
        seconds = median(each.seconds or 0.0 for each in rows)
        work = results.tasks * (row.macs or 0) / macs
        accuracy = f"{100 * (row.task_il or 0):6.1f}    {100 * (row.class_il or 0):6.1f}"
        print(
            f"{row.readout:16}  {accuracy}  {1e3 * seconds:9.1f}"
            f"  {share:11.2%}  {work:11.2%}    {'met' if share <= TARGET else 'missed'}"
        )


if __name__ == "__main__":
    main()
