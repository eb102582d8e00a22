"""Narrow dense twins of sparse rows: the base of a row with as few weights, or at as few FLOPs, from the start."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from esacl.config import SLOTS, Config
from esacl.errors import ConfigError, unknown_name
from esacl.methods import check_settings, compose, method
from esacl.methods.names import base_names
from esacl.metrics.cost import credit
from esacl.nets import outline, resolve_backbone
from esacl.nets.macs import macs_per_example
from esacl.nets.model import Model
from esacl.nets.partition import partition
from esacl.options import parse
from esacl.streams import available, open_stream
from esacl.streams.inputs import ImageInputs
from esacl.streams.split import task_count
from esacl.types import Context

if TYPE_CHECKING:
    from esacl.grid.points import Point

KINDS = {"weights": "weights", "flops": "FLOPs"}
WIDEST = 4096
Size = Callable[[nn.Module, tuple[int, int, int]], int]


def check_kinds(kinds: Any, where: str) -> list[str]:
    """The same kinds of twins, if there are such."""
    if not isinstance(kinds, list):
        raise ConfigError(f"twins = {kinds!r} in {where} is not allowed. Allowed: a list of {', '.join(KINDS)}.")
    for kind in kinds:
        if str(kind) not in KINDS:
            raise unknown_name(f"twin of {where}", str(kind), KINDS)
    return kinds


def twins(wanted: Sequence[tuple["Point", Sequence[str]]]) -> list["Point"]:
    """A twin of each kind for every sparse point; one that is the twin of several, or of both kinds, is there once."""
    everyone = [point for point, _ in wanted]
    found: dict[str, tuple[Point, list[str]]] = {}
    for point, kinds in wanted:
        for kind in kinds if is_sparse(point) else ():
            made = twin(point, kind, everyone)
            names = found.setdefault(repr(sorted(made.settings.items())), (made, []))[1]
            names += [KINDS[kind]] if KINDS[kind] not in names else []
    return [replace(made, row=f"{made.row}, as few {' and '.join(names)}") for made, names in found.values()]


def is_sparse(point: "Point") -> bool:
    """Whether a point prunes or masks."""
    return "sparsity" in method(point.config(seed=0).method, point.code).parts


def dense_base(name: str) -> str:
    """The method that a sparse one stands on: er of esacl-er; fine-tuning of those that stand alone."""
    base = name.partition("-")[2]
    return base if base in base_names() else "finetune"


def twin(point: "Point", kind: str, others: Sequence["Point"]) -> "Point":
    """The dense base of a sparse point in another width; with the settings of its own row, where there is one."""
    config = point.config(seed=0)
    base, width = dense_base(config.method), twin_width(config, kind, point.code)
    axes = {name: value for name, value in point.axes.items() if name == "stream"}
    own = next((other for other in others if _is_base(other, base, point)), None)
    settings = own.settings if own is not None else _without_parts(point.settings, base)
    moved = {**settings, "method": base, "net.backbone": config.net.backbone, "net.width": width}
    return replace(point, row=base, axes={**axes, "width": width}, settings=moved)


def _is_base(other: "Point", base: str, point: "Point") -> bool:
    """Whether a point is the base of another on the same stream, for as long."""
    mine, theirs = point.config(seed=0), other.config(seed=0)
    return theirs.method == base and (theirs.stream, theirs.train) == (mine.stream, mine.train)


def _without_parts(settings: Mapping[str, Any], base: str) -> dict[str, Any]:
    """Settings of data, network and training, and those of the objective that the base has a use for."""
    known = {f"objective.{name}" for name in method(base).options("objective")}
    return {path: value for path, value in settings.items() if path.partition(".")[0] not in SLOTS or path in known}


def twin_width(config: Config, kind: str, code: Collection[str] = ()) -> int:
    """The width whose dense network is nearest to the non-zero weights, or to the credited FLOPs, of a sparse run.

    Weights: what is left after the last pruning, and all that is never pruned. FLOPs: those that the paper's accounting
    credits a training image with (`credit`), which a dense network of that size really executes.
    """
    shape, classes, tasks = stream_facts(config)
    backbone, width = resolve_backbone(config.net.backbone, config.net.width, shape)
    assert width is not None
    model = _model(backbone, width, shape, classes)
    density, share = _shares(config, classes, tasks, code)
    if kind == "weights":
        sizes = {name: value.numel() for name, value in model.named_parameters()}
        zeros = (1 - density) * sum(sizes[name] for name in partition(model).prunable)
        return nearest_width(backbone, shape, classes, sum(sizes.values()) - zeros, weights)
    return nearest_width(backbone, shape, classes, share * macs(model, shape), macs)


def nearest_width(backbone: str, shape: tuple[int, int, int], classes: int, goal: float, size: Size) -> int:
    """The width at which a network is nearest to a size: bisected, as a wider one is never smaller."""

    def at(width: int) -> int:
        return size(_model(backbone, width, shape, classes), shape)

    low, high = 1, WIDEST
    while low < high:
        middle = (low + high) // 2
        if at(middle) < goal:
            low = middle + 1
        else:
            high = middle
    return min((max(1, low - 1), low), key=lambda width: abs(at(width) - goal))


def weights(model: nn.Module, shape: tuple[int, int, int]) -> int:
    """Parameters of a network."""
    return sum(value.numel() for value in model.parameters())


def macs(model: nn.Module, shape: tuple[int, int, int]) -> int:
    """Multiply-adds of an example."""
    return sum(macs_per_example(model, shape).values())


@cache
def _model(backbone: str, width: int, shape: tuple[int, int, int], classes: int) -> Model:
    """A network without values."""
    return outline(backbone, width, shape, classes)


def _shares(config: Config, classes: int, tasks: int, code: Collection[str]) -> tuple[float, float]:
    """Density after the last task, and credited FLOPs relative to the dense base."""
    options = check_settings(config, compose(config, code=code))
    chosen = method(config.method, code).switched(options)
    context = Context(
        classes=classes,
        tasks=tasks,
        batch_size=config.train.batch_size,
        epochs=config.train.epochs,
        seed=0,
        fit_loss=config.train.fit_loss,
        device=torch.device("cpu"),
        inputs=ImageInputs((0.0,), (1.0,)),
    )
    slots = ("sparsity", "selection", "gradient")
    sparsity, selection, gradient = (
        chosen.part(slot)(parse(chosen.part(slot).Options, options[slot], slot), context) for slot in slots
    )
    density = 1 - sparsity.target  # type: ignore[attr-defined]
    return density, credit(density, selection.kept_share, gradient.passes)  # type: ignore[attr-defined]


def stream_facts(config: Config) -> tuple[tuple[int, int, int], int, int]:
    """Shape, classes and tasks of a stream; one that is no known data set is opened."""
    info = next((info for info in available() if info.name == config.stream.name), None)
    if info is None or info.image is None or info.classes is None:
        stream = open_stream(config.stream, config.seed)
        return stream.shape, len(stream.class_names), len(stream.tasks)
    tasks = task_count(info.classes, config.stream.tasks, config.stream.classes_per_task, info.tasks)
    side = config.stream.image_size
    shape = info.image if side is None else (info.image[0], side, side)
    return shape, info.classes, tasks
