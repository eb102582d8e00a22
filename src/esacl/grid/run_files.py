"""The files of a run on their way between a worker of a cluster and the client: by name, as bytes."""

import re
from collections.abc import Mapping

from esacl.artifacts import RunDirectory
from esacl.errors import RunError

Files = dict[str, bytes]

# In the order of writing: a checkpoint counts the events before it, and results say that the run is finished.
ORDER = ("config.toml", "events.jsonl", "checkpoint", "model.safetensors", "report.html", "results.json")
_CHECKPOINT = re.compile(r"checkpoint/([0-9]{1,12})\.safetensors")


def to_continue(directory: RunDirectory) -> Files:
    """What another machine needs to go on: nothing where nothing was saved yet."""
    numbers = directory.checkpoints.numbers()
    return _files(directory, ORDER[:2], numbers) if numbers else {}


def so_far(directory: RunDirectory) -> Files:
    """The newest checkpoint of a run that is being trained, and what belongs to it."""
    return _files(directory, ORDER[:2], directory.checkpoints.numbers()[-1:])


def whole(directory: RunDirectory) -> Files:
    """A finished run, with the checkpoints of its end and of before the last pruning."""
    return _files(directory, [name for name in ORDER if name != "checkpoint"], directory.checkpoints.numbers()[-2:])


def unpack(files: Mapping[str, bytes], directory: RunDirectory) -> None:
    """Write files into a run directory; a crash in between leaves a run that can go on."""
    for name in sorted(files, key=_place):
        if found := _CHECKPOINT.fullmatch(name):
            directory.checkpoints.put(int(found[1]), files[name])
        else:
            directory.folder.write(name, files[name])


def _place(name: str) -> tuple[int, int]:
    """Where a file stands in the order of writing, older checkpoints first; a name that no run has is refused."""
    if found := _CHECKPOINT.fullmatch(name):
        return ORDER.index("checkpoint"), int(found[1])
    if name not in ORDER or name == "checkpoint":
        raise RunError(f"a worker sent a file {name!r}, which no run has. Use workers that you trust.")
    return ORDER.index(name), 0


def _files(directory: RunDirectory, names: list[str] | tuple[str, ...], checkpoints: list[int]) -> Files:
    directory.check_links()
    paths = [*names, *(f"checkpoint/{number:06d}.safetensors" for number in checkpoints)]
    return {name: (directory.path / name).read_bytes() for name in paths if (directory.path / name).exists()}
