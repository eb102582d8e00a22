"""Checkpoints: the whole state of a run as one safetensors file, with a digest, and never a pickle.

Tensors are stored as such; everything around them (nested dicts, lists, plain values) is a JSON tree in the
file's metadata whose leaves name the tensors.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from esacl.documents import as_record, parse_json
from esacl.errors import CheckpointError, EsaclError
from esacl.files import Folder, remove_leftovers
from esacl.sealed import digest, read_tensors
from esacl.types import State
from esacl.version import __version__

FORMAT = "esacl-checkpoint-1"
KEPT = 2  # the newest and the one before it
_NAME = re.compile(r"([0-9]{6}|[1-9][0-9]{6,11})\.safetensors")


def pack(state: State, form: str = FORMAT) -> bytes:
    """A state as the bytes of a safetensors file; `form` is what tells it from files of another kind."""
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(to_tree(state, tensors, ""))
    metadata = {"format": form, "tree": tree, "sha256": digest(tree, tensors)}
    return save(tensors, metadata)


def unpack(path: Path, form: str = FORMAT, kind: str = "checkpoint") -> State:
    """The state in a file of that form, which people call `kind`; anything wrong with it is a CheckpointError."""
    metadata, tensors = read_tensors(path, "")
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    found = metadata.get("format")
    if found != form:
        raise CheckpointError(f"{str(path)!r} is not a {kind} of this library (format {found!r}, not {form!r}).")
    if metadata.get("sha256") != digest(metadata.get("tree", ""), tensors):
        raise CheckpointError(f"the {kind} {str(path)!r} is damaged: its contents do not match its digest.")
    with taking_over(f"the {kind} {str(path)!r}"):
        state = as_record(from_tree(parse_json(metadata["tree"]), tensors), dict[Any, Any])
    if tensors:
        raise CheckpointError(f"the {kind} {str(path)!r} holds unused tensors: {', '.join(sorted(tensors)[:3])}.")
    return state


class Unfit(CheckpointError):
    """A state that is whole, but not one that this version can go on from."""


@contextmanager
def taking_over(what: str, remedy: str = "") -> Iterator[None]:
    """Whatever goes wrong while a state is put in its place, as one line: a digest vouches for bytes, not for sense."""
    try:
        yield
    except EsaclError:
        raise
    except Exception as error:  # parts make what they like of a state that is not theirs
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Unfit(f"{what} does not hold what esacl {__version__} expects: {reason}. {remedy}".rstrip()) from None


def fingerprint(state: State) -> str:
    """A digest of everything in a state."""
    tensors: dict[str, Tensor] = {}
    return digest(json.dumps(to_tree(state, tensors, "")), tensors)


class Checkpoints:
    """The numbered checkpoints of a run; only the newest few are kept."""

    def __init__(self, folder: Folder | Path) -> None:
        self._files = folder if isinstance(folder, Folder) else Folder(folder)

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self._files.path

    def numbers(self) -> list[int]:
        """What is there, oldest first."""
        return sorted(int(found[1]) for found in map(_NAME.fullmatch, self._files.names()) if found)

    def save(self, number: int, state: State) -> None:
        """Write a checkpoint, then drop the ones that are too old (and any newer one, damaged or abandoned)."""
        self.put(number, pack(state))

    def put(self, number: int, data: bytes) -> None:
        """The same with a checkpoint that was packed elsewhere."""
        self._files.make()
        self._files.write(_name(number), data)
        older = [n for n in self.numbers() if n < number]
        newer = [n for n in self.numbers() if n > number]
        for stale in [*older[: len(older) - KEPT + 1], *newer]:
            self._files.remove(_name(stale))

    def clear(self) -> None:
        """Delete every checkpoint, and the folder if nothing else is in it."""
        for number in self.numbers():
            self._files.remove(_name(number))
        self._files.remove_if_empty()

    def remove_leftovers(self) -> None:
        """Delete what a killed writer left of a checkpoint."""
        remove_leftovers(self._files, lambda name: _NAME.fullmatch(name) is not None)

    def newest(self, take: Callable[[State], object] = lambda state: None) -> tuple[State | None, list[str]]:
        """The newest whole checkpoint that `take` can go on from (None without any), and what is wrong with newer ones.

        Where there are whole ones, but `take` finds all of them unfit, that is an error: another version of this
        library may go on from them.
        """
        problems: list[str] = []
        unfit: list[Unfit] = []
        for number in reversed(self.numbers()):
            try:
                state = unpack(self._files.file(_name(number)))
            except CheckpointError as error:
                problems.append(str(error))
                continue
            try:
                take(state)
                return state, problems
            except Unfit as error:
                unfit.append(error)
                problems.append(str(error))
        if unfit:
            raise unfit[0]
        return None, problems

    def before_newest(self) -> State | None:
        """The checkpoint before the newest; None without one."""
        numbers = self.numbers()
        return unpack(self._files.file(_name(numbers[-2]))) if len(numbers) > 1 else None


def _name(number: int) -> str:
    return f"{number:06d}.safetensors"


def to_tree(value: Any, tensors: dict[str, Tensor], name: str) -> Any:
    """Plain values as they are; containers and tensors as tagged lists."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        name = f"{len(tensors)}{name}"  # numbered: {"a": {"b": ...}} and {"a/b": ...} are two places
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return ["tensor", name]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str | int):
                raise CheckpointError(f"a state is keyed by text or whole numbers, but {name} has the key {key!r}.")
        return ["dict", [[key, to_tree(item, tensors, f"{name}/{key}")] for key, item in value.items()]]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [to_tree(item, tensors, f"{name}/{place}") for place, item in enumerate(value)]]
    raise CheckpointError(f"a state may hold tensors and plain values, but {name} is a {type(value).__name__}.")


def from_tree(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """What `to_tree` was given; ValueError where it gave something else."""
    match tree:
        case None | bool() | int() | float() | str():
            return tree
        case ["tensor", str(name)] if name in tensors:
            return tensors.pop(name)
        case ["dict", [*pairs]]:
            return {key: from_tree(item, tensors) for key, item in as_record(pairs, list[tuple[str | int, Any]])}
        case ["list", [*items]]:
            return [from_tree(item, tensors) for item in items]
        case ["tuple", [*items]]:
            return tuple(from_tree(item, tensors) for item in items)
    raise ValueError(f"{str(tree)[:40]!r} is no part of a state")
