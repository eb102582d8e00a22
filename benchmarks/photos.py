"""Memory and time to start with folders of 5,000 and 50,000 photos at 224 px, read by an epoch of the loader.

Every case is a process of its own: it opens the folder, takes one epoch, and prints its largest resident memory.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from time import perf_counter

import numpy as np
from PIL import Image

CLASSES, DIFFERENT = 10, 500
SIDE = 224


def write(folder: Path, count: int) -> None:
    """Small JPEGs in sub-folders; a few hundred different ones, under many names."""
    draw = np.random.default_rng(0)
    files = []
    for _ in range(DIFFERENT):
        coarse = Image.fromarray(draw.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        file = BytesIO()
        coarse.resize((320, 240), Image.Resampling.BICUBIC).save(file, "JPEG", quality=80)
        files.append(file.getvalue())
    for label in range(CLASSES):
        (folder / f"class-{label}").mkdir(parents=True)
    for number in range(count):
        (folder / f"class-{number % CLASSES}" / f"{number:06}.jpg").write_bytes(files[number * 7 % DIFFERENT])


def measure(folder: Path, cache: str, batches: int | None) -> None:
    """Open the folder, and read batches as training does; print what it took."""
    import torch

    from esacl.config import StreamConfig
    from esacl.streams import open_stream
    from esacl.streams.loading import Loader

    began = perf_counter()
    stream = open_stream(StreamConfig(f"folder:{folder}", tasks=1, image_size=SIDE, cache=cache))  # type: ignore[arg-type]
    opened = perf_counter() - began
    examples = stream.tasks[0].train
    seen = 0
    for number, batch in enumerate(Loader(stream, 0, examples, 32, 0, torch.device("cpu")).epoch(0)):
        if number == batches:
            break
        seen += len(batch)
    taken = perf_counter() - began - opened
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    rate = seen / taken if seen else 0
    print(f"{len(examples):>8} {cache:>6} {opened:>8.1f} s {rate:>12.0f} {peak:>10.0f} MiB", flush=True)


def main() -> None:
    """Generate the folders, and measure each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--batches", type=int, help="read only so many batches [default: an epoch]")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(Path(given.one[0]), given.one[1], given.batches)
        return
    print("training  cache      open    images/s   resident")
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "ESACL_CACHE": str(Path(place, "cache"))}
        limit = [] if given.batches is None else ["--batches", str(given.batches)]
        for size in given.sizes:
            folder = Path(place, str(size))
            write(folder, size)
            for cache in ("none", "disk", "disk", *(["ram"] if size <= 5_000 else [])):
                command = [sys.executable, __file__, *limit, "--one", str(folder), cache]
                subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    main()
