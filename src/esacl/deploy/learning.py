"""Teaching a saved classifier the images of a folder."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from esacl.deploy.opening import form_of
from esacl.deploy.pictures import to_channels
from esacl.errors import CheckpointError, ConfigError, InputError
from esacl.estimator.storage import FORM, read
from esacl.streams.folder import read_task, warn_of_twins
from esacl.streams.images import Progress
from esacl.streams.resize import Rule

if TYPE_CHECKING:
    from esacl.estimator import ContinualClassifier


@dataclass(frozen=True, slots=True)
class Lesson:
    """The images of a folder, as a classifier learns them."""

    x: npt.NDArray[np.uint8]  # [N, C, H, W], or [N, H, W, C] where the classifier expects the channels last
    y: npt.NDArray[Any]
    broken: dict[Path, str]


def open_classifier(
    path: Path, method: str | None, backbone: str | None = None, code: Collection[str] = ()
) -> "ContinualClassifier | None":
    """The classifier in a file, to be taught more; None where there is no file and a method to start anew with."""
    if path.is_dir():
        raise CheckpointError(
            f"{str(path)!r} is a directory. A run of `esacl run` is over: its tasks were fixed when it began. For a "
            f"model that keeps learning, start one with `esacl learn NEW_FILE FOLDER --method NAME` on the images of "
            f"the first task, and teach it the others in turn."
        )
    if not path.exists():
        if method is None:
            raise CheckpointError(
                f"there is no model {str(path)!r}. Check the path; to start a new model there, add "
                f"--method esacl-der++ (or another: see `esacl methods`)."
            )
        return None
    if method is not None:
        raise ConfigError(
            f"{str(path)!r} holds a model already, and a model keeps the method it began with. Leave --method out, or "
            f"name a file that does not exist yet."
        )
    if form_of(path) != FORM:
        raise CheckpointError(
            f"{str(path)!r} is not a saved classifier: it holds weights, but not what a model needs to go on learning. "
            f"Give a file of ContinualClassifier.save or `esacl learn`."
        )
    from esacl.estimator import ContinualClassifier  # slow to import

    return ContinualClassifier.load(path, backbone, code=code)


def lesson(
    folder: Path,
    model: Path | None,
    size: int,
    rule: Rule,
    progress: Progress | None = None,
    backbone: str | None = None,
    code: Collection[str] = (),
) -> Lesson:
    """The images of one sub-folder a class, in the size and the kind of labels of the model in that file, if any."""
    channels, height, width = 3, size, size
    numbers, last = False, False
    if model is not None:
        saved = read(model, backbone, code=code)
        if saved.layout.kind != "images" or saved.layout.stored != "uint8" or saved.layout.shape[0] not in (1, 3):
            raise InputError(
                f"{str(model)!r} has not learnt from images of bytes, so image files cannot be added to it. Teach it "
                f"in Python, with ContinualClassifier.load(...).partial_fit."
            )
        (channels, height, width), rule = saved.layout.shape, saved.layout.resize
        last = saved.params["channels"] == "last"
        numbers = saved.labels.values.dtype.kind in "iu"
    names, examples, broken = read_task(folder, (height, width), rule, progress)
    warn_of_twins(names, [] if model is None or numbers else list(map(str, saved.labels.values)))
    labels = np.array([_number(name, folder) for name in names] if numbers else names)
    x = to_channels(examples.x[:], channels).numpy()
    return Lesson(np.moveaxis(x, 1, 3) if last else x, labels[examples.y.numpy()], broken)


def _number(name: str, folder: Path) -> int:
    """The label that a folder's name stands for, in a model whose labels are numbers."""
    try:
        return int(name)
    except ValueError:
        raise InputError(
            f"the classes of this model are whole numbers, but {str(folder / name)!r} is named otherwise. "
            f"Name each sub-folder by its number."
        ) from None
