"""Photos to try the walk-through with: CIFAR-10's images as files, two new classes a week, and later ones to judge by.

Run: python photos.py FOLDER [IMAGES]. It needs the archive: `esacl data get cifar10`, or $ESACL_DATA.
"""

import sys
from pathlib import Path

from PIL import Image

import esacl
from esacl.config import StreamConfig

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog")


def main(folder: Path, images: int) -> None:
    """Write so many images of each class for its week, and as many later ones."""
    stream = esacl.open_stream(StreamConfig(name="split-cifar10", limit_per_class=2 * images))
    for task in stream.tasks[:3]:
        for split, place in (("train", folder / f"week-{task.index + 1}"), ("test", folder / "later")):
            examples = task.split(split)
            for column in task.classes:
                (place / CLASSES[column]).mkdir(parents=True, exist_ok=True)
                for number, row in enumerate((examples.y == column).nonzero().flatten()[:images].tolist()):
                    pixels = examples.x[row : row + 1][0].permute(1, 2, 0).numpy()
                    Image.fromarray(pixels).save(place / CLASSES[column] / f"{number}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
