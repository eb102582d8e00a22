"""A classifier in a file: safetensors with a JSON tree and a digest, never a pickle."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from esacl.code import is_own
from esacl.config import Config
from esacl.documents import Count, Positive, as_record
from esacl.errors import CheckpointError
from esacl.estimator.heldout import HeldOut
from esacl.estimator.labels import Labels
from esacl.estimator.layout import InputLayout
from esacl.estimator.learner import ClassifierPlan, Learner
from esacl.estimator.settings import resolved
from esacl.files import write_atomic
from esacl.methods import Given as GivenMethod
from esacl.methods.names import given_again
from esacl.nets import Given, own_net, require_user_module
from esacl.training.checkpoint import pack, taking_over, unpack
from esacl.version import __version__

FORM = "esacl-classifier-1"


@dataclass(frozen=True, slots=True)
class Saved:
    """What a fitted classifier is made of."""

    params: dict[str, Any]
    features: tuple[str, ...] | None  # names of the features, where they had any
    labels: Labels
    layout: InputLayout
    learner: Learner
    held: HeldOut


@dataclass(frozen=True, slots=True)
class _Document:
    """What is read of a file."""

    params: dict[str, Any]
    features: tuple[str, ...] | None
    labels: dict[str, Any]
    layout: InputLayout
    config: dict[str, Any]
    columns: Positive
    expected: Positive | None
    history: tuple[tuple[Count, ...], ...]
    trainer: dict[str, Any]
    held: dict[str, Any] | None = None  # files of before have none


def write(path: Path, saved: Saved) -> None:
    """Write a classifier in one step: the file of before or the new one, never half of either."""
    learner = saved.learner
    config = learner.plan.config
    own = {} if learner.plan.own is None else {"backbone": config.net.backbone}  # its name, never the code itself
    state = {
        "esacl": __version__,
        "params": plain({**saved.params, **own, "method": config.method}),
        "features": saved.features,
        "labels": saved.labels.state_dict(),
        "layout": asdict(saved.layout),
        "config": plain(config.to_mapping()),
        "columns": learner.plan.columns,
        "expected": learner.plan.expected,
        "history": learner.history,
        "trainer": learner.state_dict(),
        "held": saved.held.state_dict(),
    }
    try:
        write_atomic(path, pack(state, FORM))
    except OSError as error:
        raise CheckpointError(f"cannot write {str(path)!r}: {error.strerror}. Choose another place.") from None


def read(
    path: Path, backbone: Given | None = None, method: GivenMethod | None = None, code: Collection[str] = ()
) -> Saved:
    """The classifier in a file; anything wrong with the file is a CheckpointError.

    A network, a method and parts of the user's own must be given again, as no file is allowed to start code; `code`
    are names of methods and parts that may be started.
    """
    remedy = "Give a file that ContinualClassifier.save wrote."
    try:
        state = unpack(path, FORM, "saved classifier")
    except CheckpointError as error:
        raise CheckpointError(f"{error} {remedy}") from None
    where = f"the saved classifier {str(path)!r}"
    with taking_over(where, remedy):
        found = as_record(state, _Document)
        layout, labels = found.layout, Labels.from_state(found.labels)
        if len(labels) > found.columns or {n for own in found.history for n in own} - {*range(len(labels))}:
            raise ValueError(f"{len(labels)} labels, {found.columns} columns and tasks of {found.history}")
        config = Config.from_mapping({**found.config, "machine": _here(state)})
        given = require_user_module(config.net.backbone, backbone, where)
        own = None if given is None else own_net(given, layout.shape, config.seed)
        if own is not None:
            own.check_is_of(found.trainer["net"]["model"], where)
        chosen = given_again(config, method, where, code)
        _check_parameters(found.params, {*config.code(), config.net.backbone}, where)
        config = resolved(config, layout.shape, found.config["machine"]["threads"], own, chosen)
        plan = ClassifierPlan(config, layout.shape, layout.inputs, found.columns, found.expected, own, chosen)
        learner = Learner(plan, found.history, found.trainer)
        again = {"backbone": given, "method": method}
        params = {**found.params, **{name: each for name, each in again.items() if each is not None}}
        held = HeldOut.from_state(found.held, layout.shape, layout.stored, len(labels))
        return Saved(params, found.features, labels, layout, learner, held)


def _check_parameters(params: dict[str, Any], allowed: Collection[str], where: str) -> None:
    """Refuse code among the parameters that is not among the settings, where it was given again."""
    named = [params["method"], params["backbone"], *((params["options"] or {}).get("parts") or {}).values()]
    for name in named:
        if isinstance(name, str) and is_own(name) and name not in allowed:
            raise CheckpointError(
                f"{where} was not written by esacl: its parameters name code, {name!r}, that its settings do not know. "
                f"Use a file that you trust."
            )


def _here(state: dict[str, Any]) -> dict[str, Any]:
    """The machine that it asks for, which need not be the one it was saved on."""
    return {**state["config"]["machine"], "device": state["params"]["device"]}


def plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, however deep; everything else as it is."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value
