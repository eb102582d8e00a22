"""Checks for methods, streams and backbones of anyone's: what the library relies on, with failures that say what to do.

Call them from the tests of a package: `check_method(METHOD)`, `check_stream(stream)`, `check_backbone(BACKBONE)`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from esacl.assembly import assemble
from esacl.config import SLOTS, Config, NetConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.methods import Method, method, resolve
from esacl.methods.names import as_method
from esacl.nets import Backbone
from esacl.objectives.base import Objective
from esacl.part import Part
from esacl.rng import generator
from esacl.streams.base import Examples, Stream, Task
from esacl.streams.inputs import ImageInputs
from esacl.training.checkpoint import fingerprint, from_tree, to_tree
from esacl.training.events import EpochDone, TaskDone
from esacl.training.trainer import Trainer
from esacl.types import State

CPU = torch.device("cpu")
Options = Mapping[str, Mapping[str, Any]]


class CheckFailed(AssertionError):
    """Something that the library relies on does not hold."""


def small_stream(
    tasks: int = 3,
    classes_per_task: int = 2,
    per_class: int = 12,
    shape: tuple[int, int, int] = (1, 8, 8),
    augment: bool = False,
    seed: int = 0,
) -> Stream:
    """Classes are random patterns, examples are noisy copies of them: easy to learn, easy to forget."""
    draw = generator(seed, "test stream")
    classes = tasks * classes_per_task
    patterns = torch.randint(0, 256, (classes, *shape), generator=draw).float()

    def examples(columns: range, count: int) -> Examples:
        y = torch.tensor([column for column in columns for _ in range(count)])
        noise = torch.randn(len(y), *shape, generator=draw)
        return Examples((patterns[y] + 40 * noise).clamp(0, 255).to(torch.uint8), y)

    def task(index: int) -> Task:
        columns = range(index * classes_per_task, (index + 1) * classes_per_task)
        return Task(index, tuple(columns), examples(columns, per_class), examples(columns, 5), examples(columns, 7))

    parts = tuple(task(index) for index in range(tasks))
    channels = shape[0]
    inputs = ImageInputs((0.5,) * channels, (0.25,) * channels, padding=int(augment), flip=augment)
    return Stream("synthetic", tuple(f"class {c}" for c in range(classes)), parts, parts, inputs)


def check_method(
    given: Method | type[Part] | str, options: Options | None = None, net: NetConfig | None = None
) -> Trainer:
    """Train a method on a small stream and check what runs rely on; returns the trained trainer.

    The same seed gives the same bits, global random generators are left alone, evaluation changes nothing, arithmetic
    is counted, and a run that is saved at any boundary goes on from there to the same bits.
    """
    chosen = method(given) if isinstance(given, str) else as_method(given, "method")
    name = given if isinstance(given, str) else chosen.name

    def build(seed: int = 0) -> Trainer:
        of = small_stream(augment=True)
        of = of.joint() if chosen.joint else of
        settings = Config(
            name,
            seed,
            net=net or NetConfig("mlp", 16),
            train=TrainConfig(epochs=2, batch_size=8),
            options=options or {},
        )
        whole = chosen.switched(settings.options)
        resolved = resolve(settings, of, chosen=whole)
        return assemble(resolved, of, CPU, method=whole)

    done = _check_seeds(name, build)
    if type(done.parts.objective).fit_loss is not Objective.fit_loss:
        raise CheckFailed(f"{name}: override example_loss, not fit_loss, which chooses the columns that compete.")
    meter = done.net.meter
    if not 0 < meter.sparse_macs["train"] <= meter.executed_macs["train"]:
        raise CheckFailed(f"{name}: training is not counted. Call the network as net(x), never its module.")
    _check_evaluation(name, done)
    _check_resumes(name, build)
    return done


def check_stream(stream: Stream) -> None:
    """Check that a stream's tasks hold what training, evaluation and resuming rely on."""
    if not isinstance(stream, Stream):
        raise CheckFailed(f"{type(stream).__name__} is no esacl.Stream. Return one, or make it with esacl.from_arrays.")
    columns, stored = len(stream.class_names), tuple(stream.stages[0].train.x.shape[1:])
    for place, task in enumerate(stream.tasks):
        where = f"{stream.name}, task {place}"
        if task.index != place:
            raise CheckFailed(f"{where}: its index is {task.index}. Number tasks from 0 on.")
        if not task.classes or not all(0 <= column < columns for column in task.classes):
            raise CheckFailed(f"{where}: its classes {task.classes} must be columns from 0 to {columns - 1}.")
        for split in ("train", "validation", "test"):
            _check_examples(f"{where}, {split}", task.split(split), stored, task.classes)
    if stream.fingerprint() != stream.fingerprint():
        raise CheckFailed(f"{stream.name}: its data change between two looks. Draw random numbers once.")


def check_backbone(backbone: Backbone, shape: tuple[int, int, int] = (3, 16, 16), width: int = 8) -> None:
    """Check that a backbone maps images of that shape to as many features as it says."""
    if not isinstance(backbone, Backbone):
        raise CheckFailed(f"{type(backbone).__name__} is no esacl.Backbone. Write esacl.Backbone(build, width, ...).")
    module = backbone.build(shape, width)
    features = getattr(module, "features", None)
    if not isinstance(features, int):
        raise CheckFailed(f"{type(module).__name__}.features must be the number of features, but is {features!r}.")
    with torch.no_grad():
        found = tuple(module.eval()(torch.zeros(2, *shape)).shape)
    if found != (2, features):
        raise CheckFailed(f"{type(module).__name__} makes {found} of two images, but says features = {features}.")


def _check_examples(where: str, found: Examples, shape: tuple[int, ...], classes: tuple[int, ...]) -> None:
    if len(found.x) != len(found.y) or not len(found.y):
        raise CheckFailed(f"{where}: {len(found.x)} examples and {len(found.y)} labels. Give one label for each.")
    if tuple(found.x.shape[1:]) != shape or found.x.dtype not in (torch.uint8, torch.float32):
        raise CheckFailed(f"{where}: x must be uint8 or float32 of shape [N, {', '.join(map(str, shape))}].")
    if found.y.dtype != torch.int64 or not set(found.y.tolist()) <= set(classes):
        raise CheckFailed(f"{where}: y must be int64 and hold columns of the task's classes {classes} only.")


def _check_seeds(name: str, build: Callable[..., Trainer]) -> Trainer:
    """The same seed, the same bits; another seed, others; and nobody else's random numbers."""
    before = torch.get_rng_state()
    one = _trained(build())
    if not torch.equal(torch.get_rng_state(), before):
        raise CheckFailed(f"{name} draws from torch's global generator. Use esacl.rng.generator(context.seed, name).")
    if _digest(one) != _digest(_trained(build())):
        raise CheckFailed(
            f"{name}: two runs of one seed differ. Draw from esacl.rng.generator(context.seed, name) only."
        )
    if _digest(one) == _digest(_trained(build(seed=1))):
        raise CheckFailed(f"{name}: runs of two seeds are the same. Derive random choices from context.seed.")
    return one


def _check_evaluation(name: str, done: Trainer) -> None:
    def kept() -> str:
        return fingerprint({"model": done.net.model.state_dict(), "parts": done.parts.state_dict()})

    before = kept()
    done._evaluate()
    if kept() != before:
        raise CheckFailed(f"{name}: evaluation changes weights or state. Readout.logits and view must change nothing.")


def _check_resumes(name: str, build: Callable[..., Trainer]) -> None:
    """Save at every boundary, and go on from each to the next: the same bits there."""
    whole = build()
    passed = [(_copied(name, whole.state_dict()), _digest(whole)) for _ in _boundaries(whole)]
    for number, (state, digest) in enumerate(passed):
        fresh = build()
        fresh.load_state_dict(state)
        for slot, part in zip(SLOTS, fresh.parts.all()):
            if fingerprint({"part": part.state_dict()}) != fingerprint({"part": state["parts"][slot]}):
                raise CheckFailed(
                    f"{name}: load_state_dict of {type(part).__name__} ({slot}) does not bring back what its "
                    f"state_dict gave."
                )
        if _digest(fresh) != digest:
            raise CheckFailed(f"{name}: a run that is loaded is not the one that was saved.")
        next(_boundaries(fresh), None)
        expected = passed[number + 1][1] if number + 1 < len(passed) else _digest(whole)
        if _digest(fresh) != expected:
            raise CheckFailed(
                f"{name} goes on differently after a resume at boundary {number + 1} of {len(passed)}. Whatever "
                f"begin_task and later calls change belongs into state_dict and load_state_dict."
            )


def _boundaries(training: Trainer) -> Any:
    return (event for event in training.run() if isinstance(event, EpochDone | TaskDone))


def _trained(training: Trainer) -> Trainer:
    for _ in training.run():
        pass
    return training


def _digest(training: Trainer) -> str:
    """A digest of all that the rest of a run depends on; not of what a clock said."""
    return fingerprint({**training.state_dict(), "seconds": None})


def _copied(name: str, state: State) -> State:
    """A state as it comes back from a file."""
    tensors: dict[str, Tensor] = {}
    try:
        tree = json.loads(json.dumps(to_tree(state, tensors, "")))
    except (TypeError, ValueError, ConfigError) as error:
        raise CheckFailed(
            f"{name}: state_dict holds something that cannot be saved: {error}. Allowed: tensors, numbers, texts, and "
            f"dicts and lists of them."
        ) from None
    copied: State = from_tree(tree, {key: value.clone() for key, value in tensors.items()})
    return copied
