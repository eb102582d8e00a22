"""Small trained models, and pictures of what they have learnt."""

from pathlib import Path

import numpy as np
from PIL import Image

from esacl import Config, ContinualClassifier, run
from tests.builders import stream
from tests.estimator.samples import Array, features, images

NAMES = np.array(["ant", "bee", "cat", "dog", "emu"])


def pictures(classes: range, each: int = 20, seed: int = 0) -> tuple[Array, Array]:
    """Colour images of 8 × 8, labelled by name."""
    x, y = images(classes, each, seed)
    return x, NAMES[y]


def large(classes: range) -> tuple[Array, Array]:
    """The same at 16 × 16."""
    x, y = pictures(classes, each=8)
    return x.repeat(2, 2).repeat(2, 3), y


def classifier(make=pictures, **settings) -> ContinualClassifier:
    """A classifier of two tasks: three classes, then two."""
    model = ContinualClassifier(**{"epochs": 5, "expected_tasks": 2, "random_state": 0, **settings})
    return model.partial_fit(*make(range(3))).partial_fit(*make(range(3, 5)))


def saved(folder: Path, make=pictures, **settings) -> Path:
    """The file of such a classifier."""
    path = folder / "model.esacl"
    classifier(make, **settings).save(path)
    return path


def finished(folder: Path, method: str, of=None) -> Path:
    """A run of three tasks of two classes."""
    config = Config.of(method=method, epochs=2, batch_size=8, width=32)
    run(config, folder / method, stream=of or stream())
    return folder / method


def write_pictures(root: Path, classes: range, each: int = 4, seed: int = 1) -> Path:
    """One sub-folder of image files for each class."""
    x, y = pictures(classes, each, seed)
    for number, (image, name) in enumerate(zip(x, y)):
        (root / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(root / name / f"{number}.png")
    return root


__all__ = ["NAMES", "classifier", "features", "finished", "large", "pictures", "saved", "write_pictures"]
