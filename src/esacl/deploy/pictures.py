"""Answers for image files: found, decoded and put to the model in batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from esacl.deploy.model import Label, Trained
from esacl.errors import InputError, RunError
from esacl.streams.images import Progress
from esacl.streams.listing import image_files
from esacl.streams.photos import decoded

AT_ONCE = 256  # files that are decoded and answered together


@dataclass(frozen=True, slots=True)
class Answer:
    """The most likely classes of an image, best first; or why it could not be read."""

    path: Path
    best: tuple[tuple[Label, float], ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Files that were decoded and answered together."""

    files: Sequence[Path]
    rows: Sequence[int]  # places of those that could be read
    pixels: Tensor  # bytes [N, C, H, W] of these
    chances: Tensor  # [N, classes]
    logits: Tensor
    broken: Mapping[Path, str]


def seen(model: Trained, files: Sequence[Path], progress: Progress = lambda done, total: None) -> Iterator[Seen]:
    """Image files as the model sees them and what it answers, some at a time."""
    check_reads_images(model)
    module = model.answering()
    for start in range(0, len(files), AT_ONCE):
        batch = files[start : start + AT_ONCE]
        pixels, rows, broken = read_for(model, batch)
        yield Seen(batch, rows, pixels, *asked(module, pixels.float() / 255), broken)
        progress(start + len(batch), len(files))


def read_for(model: Trained, files: Sequence[Path]) -> tuple[Tensor, list[int], dict[Path, str]]:
    """Files as bytes [N, C, H, W] as the model reads them, the places of these, and why others could not be read."""
    read, broken = decoded([(path, row) for row, path in enumerate(files)], model.shape[1:], model.scale.resize)
    pixels = to_channels(read.x[:], model.shape[0]) if len(read) else torch.empty(0, *model.shape, dtype=torch.uint8)
    return pixels, read.y.tolist(), broken


def asked(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and logits for a batch."""
    if not len(x):
        return torch.empty(0, 0), torch.empty(0, 0)
    with torch.no_grad():
        chances, logits = module(x)
    if not chances.isfinite().all():
        raise RunError(
            "the model answers with NaN: its weights are no numbers, or too large. Train or export it again."
        )
    return chances, logits


def answers(
    model: Trained, paths: Sequence[Path], top: int, progress: Progress = lambda done, total: None
) -> Iterator[Answer]:
    """An answer for each file, and for each image in the folders, in their order."""
    check_reads_images(model)
    files, missing = _found(paths)
    for batch in seen(model, files, progress):
        chances = dict(zip(batch.rows, batch.chances))
        for row, path in enumerate(batch.files):
            if row in chances:
                yield Answer(path, _best(chances[row], model.classes, top))
            else:
                yield Answer(path, problem=batch.broken[path])
    yield from missing


def check_reads_images(model: Trained) -> None:
    """Refuse models that cannot be shown an image file."""
    if model.scale.kind == "features":
        raise InputError(
            f"this model reads {model.shape[-1]} features, not images. Use it in Python, with "
            f"ContinualClassifier.load(...).predict, or export it."
        )
    if model.scale.kind == "floats":
        raise InputError(
            "this model has learnt from images of floats, whose scale a file does not tell. Use it in Python, with "
            "ContinualClassifier.load(...).predict and images scaled as they were; or train it on bytes (uint8)."
        )
    if model.shape[0] not in (1, 3):
        raise InputError(
            f"this model reads images of {model.shape[0]} channels, but files have 1 or 3. Use it in Python, with "
            f"ContinualClassifier.load(...).predict."
        )


def _found(paths: Sequence[Path]) -> tuple[list[Path], list[Answer]]:
    """Files, and images below folders; and what is not there."""
    files: list[Path] = []
    missing: list[Answer] = []
    for path in paths:
        if path.is_dir():
            inside = image_files(path)
            files += inside
            missing += [] if inside else [Answer(path, problem="a folder without image files")]
        elif path.exists():
            files.append(path)
        else:
            missing.append(Answer(path, problem="there is no such file"))
    return list(dict.fromkeys(files)), missing


def to_channels(pixels: Tensor, channels: int) -> Tensor:
    """Colour images as the model reads them; grey by the weights of the eye."""
    if channels == 3:
        return pixels
    grey = [np.asarray(Image.fromarray(image).convert("L")) for image in pixels.permute(0, 2, 3, 1).numpy()]
    return torch.from_numpy(np.stack(grey)).unsqueeze(1)


def _best(chances: Tensor, classes: Sequence[Label], top: int) -> tuple[tuple[Label, float], ...]:
    values, columns = chances.topk(min(top, len(classes)))
    return tuple((classes[column], value) for value, column in zip(values.tolist(), columns.tolist()))
