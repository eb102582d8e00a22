"""Opening a model: a saved classifier, a finished run, or a file that was exported."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import torch

from esacl.artifacts import Results, RunDirectory
from esacl.code import check_allowed
from esacl.config import Config
from esacl.deploy.about import Shape, exported
from esacl.deploy.model import InputScale, Kept, Trained
from esacl.deploy.runtime import SUFFIX as GRAPH
from esacl.deploy.runtime import open_graph
from esacl.deploy.weights import FORM as EXPORTED
from esacl.deploy.weights import read_export
from esacl.documents import ClassName, Count, Finite, Spread, as_record
from esacl.errors import CheckpointError, DataError, RunError
from esacl.estimator.heldout import told
from esacl.estimator.storage import FORM as CLASSIFIER
from esacl.estimator.storage import Saved, read
from esacl.nets import Given, own_net, require_user_module
from esacl.sealed import described, read_sealed, read_tensors
from esacl.streams import open_stream
from esacl.streams.resize import Rule
from esacl.training.checkpoint import taking_over
from esacl.types import Params

WHAT = "a file of ContinualClassifier.save or `esacl learn`, the directory of a finished run, or an exported file"
BESIDE = "sparsity."


def open_model(path: Path, backbone: Given | None = None, code: Collection[str] = ()) -> Trained:
    """The trained model at a path; anything that is none is refused with what it is instead.

    A network of the user's own must be given again, as no file is allowed to start code. `code` are names of methods,
    parts and streams that may be started, where the model needs them.
    """
    if path.is_dir():
        return _with_own(_run(RunDirectory(path), code), backbone, path)
    if path.suffix == GRAPH:
        raise CheckpointError(
            f"{str(path)!r} is an ONNX graph: `esacl predict` and `esacl evaluate` run it, but what it is made of is "
            f"not to be read any more. Give what it was exported from."
        )
    form = form_of(path)
    if form == CLASSIFIER:
        return of_classifier(read(path, backbone, code=code))
    if form == EXPORTED:
        about, weights = read_export(path)
        return _with_own(exported(about, weights), backbone, path)
    if path.name == "model.safetensors" and (path.parent / "results.json").exists():
        return _with_own(_run(RunDirectory(path.parent), code), backbone, path)
    raise CheckpointError(f"{str(path)!r} is not a model that esacl knows. Allowed: {WHAT}.")


def open_answering(path: Path, backbone: Given | None = None, code: Collection[str] = ()) -> Trained:
    """The same, or an ONNX graph: what can answer."""
    return open_graph(path) if path.suffix == GRAPH else open_model(path, backbone, code)


def form_of(path: Path) -> str | None:
    """What kind of file it says it is; None where it says nothing."""
    if not path.exists():
        raise CheckpointError(f"there is no model {str(path)!r}. Give {WHAT}.")
    metadata, _ = read_tensors(path, f"Give {WHAT}.", names=False)
    return metadata.get("format") or described(metadata).get("format")


def _with_own(found: Trained, backbone: Given | None, path: Path) -> Trained:
    """The model with the network that was given for it, if it is of that kind, and fits."""
    where = f"the model {str(path)!r}"
    given = require_user_module(found.backbone, backbone, where)
    if given is None:
        return found
    own = own_net(given, found.shape, seed=0)
    own.check_is_of(found.weights, where)
    return replace(found, own=own)


def of_classifier(saved: Saved) -> Trained:
    """A saved classifier, with the columns of the classes that it has learnt, in the order of `classes_`."""
    learner, layout = saved.learner, saved.layout
    config = learner.plan.config
    kind = "features" if layout.kind == "features" else "bytes" if layout.stored == "uint8" else "floats"
    whole = Trained(
        kind="classifier",
        method=config.method,
        backbone=config.net.backbone,
        width=config.net.width,
        shape=layout.shape,
        scale=InputScale(kind, layout.mean, layout.std, layout.resize),  # type: ignore[arg-type]
        classes=tuple(saved.labels.values.tolist()),
        tasks=learner.history,
        weights=learner.weights(),
        own=learner.plan.own,
        kept=tuple(_kept(saved)),
        history=told(saved.held.history, learner.history, saved.labels.values.tolist()),
    )
    return whole.with_columns(tuple(column for column in saved.labels.order.tolist() if column in learner.seen))


def _kept(saved: Saved) -> Iterator[Kept]:
    """What a classifier has held out of training, and what it remembers of it."""
    layout = saved.layout
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (layout.mean, layout.std))
    found = {"held-out examples": saved.held.examples, "the memory": saved.learner.memory()}
    for what, examples in found.items():
        if examples is not None and len(examples):
            x = examples.x[:].cpu()
            yield Kept(what, x if layout.stored == "uint8" else x * std + mean, examples.y.cpu())


def _run(directory: RunDirectory, code: Collection[str]) -> Trained:
    """A finished run."""
    config, results = directory.config(), directory.read_results()
    if results is None:
        again = quote(str(directory.path))
        raise RunError(f"the run in {str(directory.path)!r} is not finished. Finish it first: `esacl resume {again}`.")
    described, tensors = _weights(directory)
    with taking_over(f"{str(directory.weights)!r}", "Train the run again."):
        about = as_record(described, _Described)
    return Trained(
        kind="run",
        method=results.method,
        backbone=config.net.backbone,
        width=config.net.width,
        shape=about.shape,
        scale=_scale(about, config, directory.path, code),
        classes=about.classes,
        tasks=_tasks(about, results),
        weights={name: value for name, value in tensors.items() if not name.startswith(BESIDE)},
        beside={name.removeprefix(BESIDE): value for name, value in tensors.items() if name.startswith(BESIDE)},
        accuracy={name: rows[-1] for name, rows in results.matrix.items() if rows},
    )


def _weights(directory: RunDirectory) -> tuple[dict[str, Any], Params]:
    """The weights of a run and what it wrote about them."""
    path = directory.weights
    again = f"Delete results.json beside it: `esacl resume {quote(str(path.parent))}` then writes both again."
    try:
        about, tensors = read_sealed(path, again)
    except CheckpointError as error:
        raise RunError(str(error)) from None
    if not about:
        raise RunError(f"{str(path)!r} does not say what its weights are. {again}")
    return about, tensors


def _tasks(about: "_Described", results: Results) -> tuple[tuple[int, ...], ...]:
    """Columns of each task; in order of the columns where the run did not write them down."""
    if about.tasks is not None:
        return about.tasks
    ends = accumulate((len(names) for names in results.task_classes), initial=0)
    return tuple(tuple(range(start, end)) for start, end in pairwise(ends))


def _scale(about: "_Described", config: Config, path: Path, code: Collection[str]) -> InputScale:
    """How the run read its examples; from the data themselves where it did not write it down."""
    if about.inputs is not None:
        kind: Literal["bytes", "floats", "features"] = "features" if about.shape[:2] == (1, 1) else "floats"
        return InputScale(
            "bytes" if about.inputs.bytes else kind, about.inputs.mean, about.inputs.std, about.inputs.resize
        )
    if config.stream.is_code:
        check_allowed("stream", config.stream.name, code)
    try:
        inputs = open_stream(config.stream, config.seed).inputs
    except (DataError, ValueError) as error:
        raise RunError(
            f"the run in {str(path)!r} does not say how its images were scaled (older versions did not write that "
            f"down), and its data cannot be looked at again: {error} Run it again."
        ) from None
    return InputScale("bytes", inputs.mean, inputs.std, inputs.resize)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """How a run read its examples."""

    bytes: bool
    mean: tuple[Finite, ...]
    std: tuple[Spread, ...]
    resize: Rule = "squash"


@dataclass(frozen=True, slots=True)
class _Described:
    """What the weights of a run say of themselves; the first versions said less."""

    shape: Shape
    classes: tuple[ClassName, ...]
    tasks: tuple[tuple[Count, ...], ...] | None = None
    inputs: _Inputs | None = None
