"""What is in a data folder: whole, a subset, damaged or missing, for each official data set."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from esacl.errors import DataError
from esacl.streams.images import Progress
from esacl.streams.locate import data_folder, find, get_command, missing, read_official
from esacl.streams.official import OFFICIAL, Official
from esacl.streams.verify import digest, is_official


@dataclass(frozen=True, slots=True)
class Report:
    """What was found of one data set."""

    name: str
    state: Literal["official", "other", "damaged", "missing"]  # other: readable, but a subset, unpacked or repacked
    path: str  # what was found, or the folder that was searched
    form: Literal["archive", "unpacked"] | None
    detail: str  # one line: what it is, or what is wrong and what to do
    url: str
    command: str  # downloads it
    md5: str | None = None
    sha256: str | None = None
    classes: int | None = None
    train_per_class: tuple[int, int] | None = None  # fewest, most
    test_per_class: tuple[int, int] | None = None


def check(data_dir: str | Path | None = None, progress: Progress | None = None) -> list[Report]:
    """One report for each official data set; whatever lacks the official checksum is read in full."""
    folder = data_folder(data_dir)
    return [_report(data, folder, progress) for data in OFFICIAL.values()]


def _report(data: Official, folder: Path, progress: Progress | None) -> Report:
    command = get_command(data, folder)
    path = find(data, folder)
    if path is None:
        reason = str(missing(data, folder))
        return Report(data.name, "missing", str(folder.absolute()), None, reason, data.url, command)
    unpacked = path.is_dir()
    found = Report(data.name, "other", str(path), "unpacked" if unpacked else "archive", "", data.url, command)
    try:
        if not unpacked and path.stat().st_size == data.size and is_official(path, data):
            return replace(
                found,
                state="official",
                detail="the official archive, checksums verified",
                md5=data.md5,
                sha256=data.sha256,
                classes=data.classes,
                train_per_class=(data.train_per_class, data.train_per_class),
                test_per_class=(data.test_per_class, data.test_per_class),
            )
        if not unpacked:
            found = replace(found, md5=digest(path, "md5"), sha256=digest(path, "sha256"))
        source = read_official(data, folder, progress=progress)
    except DataError as error:
        return replace(found, state="damaged", detail=str(error))
    classes = len(source.class_names)
    train, test = _range(source.train.y, classes), _range(source.test.y, classes)
    whole = train[0] >= data.train_per_class and test[0] >= data.test_per_class
    images = "all images of the official set" if whole else "fewer images than the official set"
    origin = "unpacked, so it has no checksum" if unpacked else "its checksum is not the official one"
    detail = f"readable, with {images}; {origin}"
    return replace(found, detail=detail, classes=classes, train_per_class=train, test_per_class=test)


def _range(y: Tensor, classes: int) -> tuple[int, int]:
    counts = torch.bincount(y, minlength=classes)
    return int(counts.min()), int(counts.max())
