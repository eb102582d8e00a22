"""Weights from a file into a network: names matched strictly, and a report of what was taken and what was not."""

import hashlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor
from torch.nn import Module

from esacl.code import is_own, message
from esacl.config import NetConfig
from esacl.documents import Finite, Spread, as_record
from esacl.errors import CheckpointError, ConfigError
from esacl.files import user_path
from esacl.nets.model import Model, backbone_named
from esacl.nets.pretrained import Pretrained, Scale, scale_text
from esacl.pickles import check_operations
from esacl.sealed import described, read_tensors

SUFFIXES = (".safetensors", ".pth", ".pt")
PREFIXES = ("_orig_mod.", "module.", "model.", "backbone.", "encoder.")
"""What others put before the names of a network: compiled, on several devices, inside another module."""

NESTED = ("state_dict", "model", "model_state_dict", "weights")
"""Where training scripts keep the weights among other things."""

PLAIN = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
}
"""Types of numbers that weights may have."""

PICKLES = 5
"""In files of torch before 1.6: a mark, a version, the machine, the weights, and the keys of their numbers."""

COUNTER = "num_batches_tracked"  # of BatchNorm, which old files do not have


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError("{given} cannot be read: {why}.", "net.weights", str(path), why=error.strerror) from None


def find_weights(net: NetConfig) -> Path | None:
    """The file of weights that a network begins with; None where it is initialised."""
    pretrained = _entry(net)
    if net.weights == "none" or (net.weights is None and pretrained is None):
        return None
    if net.weights is None:
        assert pretrained is not None
        return pretrained.file(net.backbone)
    path = user_path(net.weights)
    if not path.is_file():
        raise ConfigError(
            "{given} is no file.", "net.weights", net.weights, remedy="Check the path, or use {net.weights:none}."
        )
    return path


def begins_with_weights(net: NetConfig) -> bool:
    """Whether there are weights to begin with: of a file, of a package, or of a network of the user's own."""
    return net.weights != "none" and (net.weights is not None or is_own(net.backbone) or _entry(net) is not None)


def with_weights(net: NetConfig, module: Module | None = None) -> NetConfig:
    """The settings with the weights spelt out: the whole path, the digest, and the scale of images they are for.

    `module` is the user's network, which may tell its scale.
    """
    path = find_weights(net)
    scale = None if net.normalise is not None else _told_by(module) or _expected(path, _entry(net))
    net = net if scale is None else replace(net, normalise=scale_text(*scale))
    if path is None:
        return net
    given = net.weights and str(path.resolve())
    return replace(net, weights=given, weights_digest=net.weights_digest or file_digest(path))


def begin_with_weights(model: Model, net: NetConfig) -> None:
    """Put the weights of the settings into a model, if they name any, and note what was done."""
    path = find_weights(net)
    if path is None:
        return
    if net.weights_digest not in (None, file_digest(path)):
        raise ConfigError(
            "{file!r} holds other weights than those that these settings were recorded with.",
            "net.weights_digest",
            net.weights_digest,
            remedy="Give back the file of then, or leave {net.weights_digest} out.",
            file=str(path),
        )
    model.report = load_weights(model, path, _entry(net))


def _entry(net: NetConfig) -> Pretrained | None:
    return None if is_own(net.backbone) or net.backbone == "auto" else backbone_named(net.backbone).pretrained


def _expected(path: Path | None, entry: Pretrained | None) -> Scale | None:
    """The scale of images that weights are for, as a file of this library or their backbone tells it."""
    if path is not None and path.suffix == ".safetensors":
        about = described(read_tensors(path, "", names=False)[0])
        found = about.get("input") or about.get("inputs")
        if isinstance(found, dict) and {"mean", "std"} <= found.keys():
            try:
                return as_record(found["mean"], tuple[Finite, ...]), as_record(found["std"], tuple[Spread, ...])
            except ValueError as error:
                raise ConfigError("{given} tells no scale: {why}.", "net.weights", str(path), why=str(error)) from None
    return None if path is None or entry is None else (entry.mean, entry.std)


def _told_by(module: Module | None) -> Scale | None:
    """The scale that a module of timm tells."""
    told = getattr(module, "pretrained_cfg", None)
    if isinstance(told, Mapping) and {"mean", "std"} <= told.keys():
        return tuple(map(float, told["mean"])), tuple(map(float, told["std"]))
    return None


def load_weights(model: Model, path: Path, pretrained: Pretrained | None = None) -> str:
    """Put the weights of a file into the backbone, and into the head where that fits; returns the report."""
    tensors, found = _read(path)
    _check_plain(path, tensors)
    tensors, notes = _without_prefixes(tensors, model.backbone.state_dict())
    tensors = {_renamed(name, pretrained): value for name, value in tensors.items()}
    own = {**model.backbone.state_dict(), **{f"head.{name}": value for name, value in model.head.state_dict().items()}}
    skipped = {
        name: value
        for name, value in tensors.items()
        if _of_the_head(name, model.replaced) and not _fits(name, value, own)
    }
    taken = {name: value for name, value in tensors.items() if name not in skipped}
    _check(path, taken, own)
    model.backbone.load_state_dict({name: taken.get(name, own[name]) for name in model.backbone.state_dict()})
    of_the_head = {name.removeprefix("head."): value for name, value in taken.items() if name.startswith("head.")}
    if of_the_head:
        model.head.load_state_dict({**model.head.state_dict(), **of_the_head})
    report = [f"{len(taken)} tensors of {str(path)!r} were loaded{found}"]
    if skipped:
        sizes = " and ".join(f"{name} of {_shape(value)}" for name, value in sorted(skipped.items()))
        report.append(f"skipped its head ({sizes}), as this network has one of {len(model.head.weight)} classes")
    return "; ".join([*report, *notes]) + "."


def _read(path: Path) -> tuple[dict[str, Tensor], str]:
    """The tensors in a file, and where in it they were."""
    if path.suffix == ".safetensors":
        try:
            return read_tensors(path, "Give another file of weights.")[1], ""
        except CheckpointError as error:
            raise ConfigError(str(error)) from None
    if path.suffix not in SUFFIXES:
        allowed = f"files that end in {', '.join(SUFFIXES)}"
        raise ConfigError("{given} is no file of weights.", "net.weights", str(path), allowed=allowed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damaged and of outdated files: what is read is checked
            _check_operations(path)
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of the format, the system, or code that a pickle wants to run
        raise ConfigError(
            "{given} cannot be read as plain weights: {why}.",
            "net.weights",
            str(path),
            remedy="Save it again with torch.save(module.state_dict(), file), or as safetensors.",
            why=message(error),
        ) from None
    return _tensors(found, path)


def _check_operations(path: Path) -> None:
    """Refuse pickles that would never be done: those in an archive, or in old files those before the numbers."""
    with path.open("rb") as file:
        archive = file.read(4) == b"PK\x03\x04"
        file.seek(0)
        if not archive:
            for _ in range(PICKLES):
                check_operations(file)
            return
        with ZipFile(file) as zipped:
            for entry in zipped.infolist():
                if entry.filename.endswith("data.pkl"):
                    check_operations(zipped.read(entry))


def _tensors(found: Any, path: Path) -> tuple[dict[str, Tensor], str]:
    """A dictionary of tensors, or the one inside it under a usual name."""
    if isinstance(found, Mapping):
        for key in ("", *NESTED):
            inside = found.get(key) if key else found
            if isinstance(inside, Mapping) and inside and all(isinstance(each, Tensor) for each in inside.values()):
                return {str(name): value for name, value in inside.items()}, f" from its entry {key!r}" if key else ""
    raise ConfigError(
        "{given} holds no weights: neither it nor an entry of it ({keys}) is a dictionary of tensors.",
        "net.weights",
        str(path),
        remedy="Save it again with torch.save(module.state_dict(), file).",
        keys=", ".join(NESTED),
    )


def _without_prefixes(tensors: dict[str, Tensor], own: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Names as the network has them, and what was taken off them."""
    notes: list[str] = []
    again = True
    while again:
        again = False
        for prefix in PREFIXES:
            named = [name for name in tensors if name.startswith(prefix)]
            if 2 * len(named) > len(tensors) and not any(name.startswith(prefix) for name in own):
                tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
                notes.append(f"{prefix!r} was taken off {len(named)} names")
                again = True
    return tensors, notes


def _renamed(name: str, pretrained: Pretrained | None) -> str:
    """The name that a tensor of the package's file has here."""
    for pattern, here in () if pretrained is None else pretrained.names:
        if found := re.match(pattern, name):
            return found.expand(here) + name[found.end() :]
    return name


def _of_the_head(name: str, head: str | None) -> bool:
    return name.startswith("head.") or (head is not None and name.startswith(f"{head}."))


def _fits(name: str, value: Tensor, own: Mapping[str, Tensor]) -> bool:
    return name in own and own[name].shape == value.shape


def _check_plain(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are no plain arrays of numbers, before anybody asks for their shapes or values."""
    strange = [name for name, value in tensors.items() if not _is_plain(value)]
    if strange:
        raise ConfigError(
            "{given} holds {count} tensors that are no plain arrays of numbers, such as {name!r}.",
            "net.weights",
            str(path),
            remedy="Save it again as dense tensors of floats.",
            count=len(strange),
            name=strange[0],
        )


def _is_plain(value: Tensor) -> bool:
    if value.is_nested or value.is_meta or value.is_quantized or value.layout is not torch.strided:
        return False
    return value.dtype in PLAIN and value.nelement() * value.element_size() <= value.untyped_storage().nbytes()


def _check(path: Path, taken: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Refuse weights that lack a tensor, have one too many or one of another shape, or are no numbers."""
    wanted = [name for name in own if not name.startswith("head.") and not name.endswith(COUNTER)]
    problems = {
        "are missing": [name for name in wanted if name not in taken],
        "are unknown": [name for name in taken if name not in own and not name.endswith(COUNTER)],
        "have another shape": [
            f"{name} of {_shape(value)} instead of {_shape(own[name])}"
            for name, value in taken.items()
            if name in own and not _fits(name, value, own)
        ],
        "are not finite": [name for name, value in taken.items() if not value.isfinite().all()],
    }
    told = [f"{len(names)} {what}, such as {names[0]}" for what, names in problems.items() if names]
    if told:
        raise ConfigError(
            "{given} does not fit the network: of its tensors, {told}.",
            "net.weights",
            str(path),
            remedy="Use the backbone that the file was made with, or another file.",
            told="; ".join(told),
        )


def _shape(value: Tensor) -> str:
    return "×".join(map(str, value.shape)) or "a number"
