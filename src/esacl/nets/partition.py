"""Which parameter is what: weights that may be pruned, the head, and the rest."""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True)
class Partition:
    """Names of the model's parameters by role."""

    prunable: tuple[str, ...]  # convolution and linear weights outside the head
    head: tuple[str, ...]
    other: tuple[str, ...]  # biases, BatchNorm


def partition(model: nn.Module) -> Partition:
    """The roles of a model's parameters; the head is the module called `head`."""
    weights = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Conv2d | nn.Linear)}
    names = [name for name, _ in model.named_parameters()]
    head = tuple(name for name in names if name.startswith("head."))
    prunable = tuple(name for name in names if name in weights and name not in head)
    other = tuple(name for name in names if name not in head and name not in prunable)
    return Partition(prunable, head, other)
