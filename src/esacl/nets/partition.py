"""Which parameter is what: weights that may be pruned, the head, and the rest."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from esacl.errors import ConfigError
from esacl.nets.layers import weight_names


@dataclass(frozen=True, slots=True)
class Partition:
    """Names of the model's parameters by role."""

    prunable: tuple[str, ...]  # weights of convolutions, linear layers and attention outside the head
    head: tuple[str, ...]
    other: tuple[str, ...]  # biases, normalisation, embeddings

    def needed(self) -> tuple[str, ...]:
        """The prunable weights, for those who can do nothing without any."""
        if not self.prunable:
            raise ConfigError(
                "nothing of this network can be pruned: it has no weights of linear layers, convolutions or attention "
                "outside its head that may move. Freeze fewer layers, give it such a layer, or use a method that does "
                "not prune, such as 'der++'."
            )
        return self.prunable


def partition(model: nn.Module) -> Partition:
    """The roles of a model's parameters, but for frozen ones; the head is the module called `head`."""
    weights = weight_names(model)
    names = [name for name, value in model.named_parameters() if value.requires_grad]
    head = tuple(name for name in names if name.startswith("head."))
    prunable = tuple(name for name in names if name in weights and name not in head)
    other = tuple(name for name in names if name not in head and name not in prunable)
    return Partition(prunable, head, other)


def overall_density(shares: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    """Share of non-zero weights over all prunable parameters.

    >>> overall_density({"a": 0.5, "b": 1.0}, {"a": 300, "b": 100})
    0.625
    """
    total = sum(sizes[name] for name in shares)
    return sum(share * sizes[name] for name, share in shares.items()) / total if total else 1.0
