"""NISPA on small streams, and what can be seen of it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from esacl.config import NetConfig, TrainConfig
from esacl.nets import Network
from esacl.nets.connections import connections
from esacl.sparsity.nispa import Nispa, NispaOptions
from esacl.streams.base import Stream, Task
from esacl.training.trainer import Trainer
from esacl.types import Context
from tests.builders import context, stream, trainer

NETS = [("mlp", 16), ("cnn", 8), ("resnet10", 2)]
SHAPES = {"mlp": (1, 8, 8), "cnn": (1, 8, 8), "resnet10": (1, 9, 9)}


class Scripted(Nispa):
    """Validation accuracies as told, phase by phase and task by task; then always 1."""

    script: Sequence[float] = ()

    def _accuracy(self, net: Network, task: Task) -> float:
        return self.script[self.done - 1] if self.done <= len(self.script) else 1.0


def of(backbone: str) -> Stream:
    """A stream that a backbone can read."""
    return stream(shape=SHAPES[backbone])


def training(
    backbone: str = "mlp",
    width: int = 16,
    epochs: int = 4,
    script: Sequence[float] | None = None,
    update: dict[str, Any] | None = None,
    **options: Any,
) -> Trainer:
    """A run of three tasks; `script` are the validation accuracies of each task's phases."""
    options = {"level": 0.5, "phase_epochs": 1, **options}

    def scripted(known: Context) -> Nispa:
        made = Scripted(NispaOptions(**options), known)
        made.script = script or ()
        return made

    return trainer(
        "nispa",
        {"sparsity": options, "update": update or {}},
        of(backbone),
        None if script is None else {"sparsity": scripted},
        net=NetConfig(backbone, width),
        train=TrainConfig(epochs=epochs, batch_size=8),
    )


def part(net: Network, seed: int = 0, **options: Any) -> Nispa:
    """The strategy, attached to a network."""
    made = Nispa(NispaOptions(**{"level": 0.5, **options}), context(seed=seed, epochs=4))
    made.attach(net)
    return made


def strategy(run: Trainer) -> Nispa:
    """The strategy of a run."""
    found = run.parts.sparsity
    assert isinstance(found, Nispa)
    return found


def copied(masks: dict[str, Tensor]) -> dict[str, Tensor]:
    """Masks as they are now."""
    return {name: mask.clone() for name, mask in masks.items()}


def what_units_say(net: Network, x: Tensor) -> dict[str, list[Tensor]]:
    """What is read of each group, [images, units, ...], in evaluation mode; the logits under "head"."""
    seen: dict[str, list[Tensor]] = {}
    handles = [
        net.model.get_submodule(one.layer).register_forward_pre_hook(
            lambda _, given, group=one.reads: seen.setdefault(group, []).append(given[0].detach().clone())
        )
        for one in connections(net.model)
    ]
    try:
        with net.inference():
            seen["head"] = [net(x).logits.clone()]
    finally:
        for handle in handles:
            handle.remove()
    return seen


def written_by(net: Network, made: Nispa, held: dict[str, Tensor]) -> dict[str, Tensor]:
    """All parameters and statistics that go into these units."""
    values = {name: net.stored[name][held[group]].detach().clone() for name, group in made.wiring.writes.items()}
    for one in made.wiring.layers:
        for norm in one.norms:
            for name in ("running_mean", "running_var"):
                values[f"{norm}.{name}"] = net.model.get_submodule(norm).get_buffer(name)[held[one.writes]].clone()
    return values


def live_weights(net: Network) -> int:
    """Prunable weights that are not zero."""
    return sum(int(net.stored[name].count_nonzero()) for name in net.partition.prunable)


def torch_equal(one: list[Tensor], other: list[Tensor], units: Tensor) -> bool:
    """Whether these units say the same."""
    return all(torch.equal(a[:, units], b[:, units]) for a, b in zip(one, other, strict=True))
