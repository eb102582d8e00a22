"""Finds an official data set on disk, verifies it and reads it; every failure says what to do next."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from esacl.errors import DataError
from esacl.files import user_path
from esacl.streams import cifar, tinyimagenet
from esacl.streams.archive import Archive, open_archive
from esacl.streams.base import Source
from esacl.streams.choose import Limit
from esacl.streams.images import Progress
from esacl.streams.official import Official
from esacl.streams.verify import is_official, wrong_digest

_READERS: dict[str, Callable[[Archive, Limit, Progress | None], Source]] = {
    "cifar10": lambda archive, *_: cifar.read(archive, cifar.CIFAR10),
    "cifar100": lambda archive, *_: cifar.read(archive, cifar.CIFAR100),
    "tinyimagenet": tinyimagenet.read,
}


def data_folder(data_dir: str | Path | None = None) -> Path:
    """The folder that holds the data sets: as given, else $ESACL_DATA, else ./data."""
    return user_path(data_dir or os.environ.get("ESACL_DATA") or "data")


def find(data: Official, folder: Path) -> Path | None:
    """The unpacked folder if there is one, else the archive, else nothing."""
    for place in data.places:
        path = folder / place
        if path.is_dir() if place == data.folder else path.is_file():
            return path
    return None


def get_command(data: Official, folder: Path) -> str:
    """What to type to download it."""
    return f"esacl data get {data.name} --data-dir {shlex.quote(str(folder))}"


def read_official(data: Official, folder: Path, limit: Limit | None = None, progress: Progress | None = None) -> Source:
    """The data set found in `folder`. An archive as large as the official one must have its checksum."""
    path = find(data, folder)
    if path is None:
        raise missing(data, folder)
    if path.is_file() and path.stat().st_size == data.size and not is_official(path, data):
        raise _with_remedy(DataError(f"{str(path)!r} is damaged: it has {wrong_digest(path, data)}."), data, path)
    try:
        with open_archive(path, data.folder) as archive:
            return _READERS[data.name](archive, limit or Limit(), progress)
    except DataError as error:
        raise _with_remedy(error, data, path) from None


def missing(data: Official, folder: Path) -> DataError:
    """The error for a data set that is not there."""
    return DataError(
        "{title} is not in {folder!r}: looked for {places}.",
        remedy="Run `{command}` to download {url} ({megabytes:.0f} MB), or set {stream.data_dir} or ESACL_DATA to the "
        "folder that holds it.",
        title=data.title,
        folder=str(folder.absolute()),
        places=", ".join(data.places),
        command=get_command(data, folder),
        url=data.url,
        megabytes=data.size / 1e6,
    )


def _with_remedy(error: DataError, data: Official, path: Path) -> DataError:
    what = "that folder" if path.is_dir() else "that file"
    return DataError(f"{error} Delete {what} and run `{get_command(data, path.parent)}`.")
