"""Small things to test with: a learnable stream of 1×8×8 images, and contexts, networks, parts and trainers on it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from esacl.config import Config, NetConfig, TrainConfig
from esacl.methods import build_parts, resolve
from esacl.nets import Network, build_model
from esacl.part import Part
from esacl.streams.base import Stream
from esacl.testing import small_stream
from esacl.training.parts import Parts
from esacl.training.trainer import Trainer
from esacl.types import Batch, Context, Outputs

stream = small_stream
CPU = torch.device("cpu")


def context(of: Stream | None = None, **changes: Any) -> Context:
    """The context of a run on a stream; fields can be given."""
    of = of or stream()
    columns = tuple(task.classes for task in of.tasks)
    plain = Context(len(of.class_names), len(of.stages), 8, 2, 0, "ce", CPU, of.inputs, columns)
    return replace(plain, **changes)


def network(
    backbone: str = "mlp",
    width: int = 16,
    shape: tuple[int, int, int] = (1, 8, 8),
    classes: int = 6,
    seed: int = 0,
    precision: str = "32",
) -> Network:
    """A small network on the CPU."""
    return Network(build_model(backbone, width, shape, classes, seed), shape, CPU, precision)


def batch(count: int = 8, of: Stream | None = None, task: int = 0, start: int = 0) -> Batch:
    """Some examples of a task's training split, both classes among them."""
    of = of or stream()
    examples = of.tasks[task].train
    rows = torch.arange(start, start + count) * 5 % len(examples)
    raw, y = examples.x[rows], examples.y[rows]
    return Batch((of.inputs.plain(raw),), raw, y, of.task_of[y], rows)


def config(method: str = "er", options: Mapping[str, Mapping[str, Any]] | None = None, **changes: Any) -> Config:
    """Settings of a short run with a small MLP; options by slot, other fields of Config by name."""
    net, train = NetConfig("mlp", 16), TrainConfig(epochs=2, batch_size=8)
    return replace(Config(method, net=net, train=train, options=options or {}), **changes)


def parts(
    method: str = "er",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    of: Context | None = None,
    replacing: Mapping[str, Part] | None = None,
) -> Parts:
    """The parts of a method, some of them replaced."""
    resolved = resolve(config(method, options), stream())
    known = of or context(columns=resolved.train.columns)
    return replace(build_parts(resolved, known), **dict(replacing or {}))


def trainer(
    method: str = "er",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    of: Stream | None = None,
    replacing: Mapping[str, Callable[[Context], Part]] | None = None,
    precision: str = "32",
    **changes: Any,
) -> Trainer:
    """A trainer of a method on the small stream; `replacing` makes parts from the context, by slot."""
    of = of or stream()
    resolved = resolve(config(method, options, **changes), of)
    train = resolved.train
    known = context(
        of,
        batch_size=train.batch_size,
        epochs=train.epochs,
        seed=resolved.seed,
        fit_loss=train.fit_loss,
        columns=train.columns,
        copies=train.augment_copies,
    )
    width = resolved.net.width
    assert width is not None
    net = network(resolved.net.backbone, width, of.shape, known.classes, resolved.seed, precision)
    made = {slot: make(known) for slot, make in (replacing or {}).items()}
    return Trainer(net, replace(build_parts(resolved, known), **made), of, train, resolved.seed)


def finish(training: Trainer) -> Trainer:
    """Train to the end."""
    for _ in training.run():
        pass
    return training


def weights(net: Network) -> dict[str, Tensor]:
    """A copy of everything the model stores, statistics included."""
    return {name: value.detach().clone() for name, value in net.model.state_dict().items()}


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether two sets of tensors agree bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def outputs_of(logits: Tensor) -> Outputs:
    """Outputs with these logits, and features as wide as those of the small network."""
    return Outputs(torch.zeros(len(logits), 16), logits)
