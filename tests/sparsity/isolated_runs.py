"""Runs of strategies whose finished tasks stay as they are, and what is looked at in them."""

from typing import Any

import torch
from torch import Tensor

from esacl.config import NetConfig, TrainConfig
from esacl.sparsity.isolation import Isolated
from esacl.training.trainer import Trainer
from tests.builders import trainer

OPTIONS: dict[str, dict[str, Any]] = {
    "packnet": {"update": {"lr": 0.05, "weight_decay": 0.01}},  # decay and momentum move what has no gradient
    "wsn": {"update": {"lr": 0.01}},
}


def isolated(
    method: str, backbone: str = "mlp", epochs: int = 2, seed: int = 0, columns: Any = None, **sparsity: Any
) -> Trainer:
    """A short run."""
    return trainer(
        method,
        {**OPTIONS[method], "sparsity": sparsity},
        net=NetConfig(backbone, 16 if backbone == "mlp" else 8),
        train=TrainConfig(epochs=epochs, batch_size=8, columns=columns, unpruned=True),
        seed=seed,
    )


def strategy(training: Trainer) -> Isolated:
    """Its sparsity."""
    found = training.parts.sparsity
    assert isinstance(found, Isolated)
    return found


def images(training: Trainer, task: int) -> Tensor:
    """Test images of a task."""
    return training.stream.inputs.plain(training.stream.tasks[task].test.x)


def own_logits(training: Trainer, task: int) -> Tensor:
    """Logits of a task's own columns on its own images, when told the task."""
    with training.net.inference():
        return training.net(images(training, task), task).logits[:, list(training.stream.tasks[task].classes)].clone()


def bits(value: Tensor) -> Tensor:
    """A float as its bits: zeros of both signs differ."""
    return value.contiguous().view(torch.int32)
