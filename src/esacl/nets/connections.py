"""Who reads whom: which group of units every layer reads, and which one it writes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from esacl.errors import ConfigError

IMAGE = "image"  # the group of what the network is shown
HEAD = "head"  # the group of its answers, one unit for each class


@dataclass(frozen=True, slots=True)
class Connection:
    """A layer between two groups of units: the columns of its weight read one, its rows write the other.

    A unit is an entry of a vector or a channel of a map. What is added up is one unit: the outputs of the layers of a
    residual block, of its shortcut, and the input that an identity passes on.
    """

    layer: str  # convolution or linear layer
    reads: str
    writes: str
    norm: str | None = None  # BatchNorm of what it writes
    stage: int = 0  # part of the backbone that it belongs to: `forward(x, since, until)` runs some of them

    @property
    def weight(self) -> str:
        """Name of its weight, [units written, units read, ...]."""
        return f"{self.layer}.weight"

    def inside(self, prefix: str) -> "Connection":
        """The same connection as seen from a module that has this one under a name."""
        norm = None if self.norm is None else f"{prefix}.{self.norm}"
        return replace(self, layer=f"{prefix}.{self.layer}", norm=norm)


def connections(model: nn.Module) -> tuple[Connection, ...]:
    """All connections of a model, those of its backbone in the order of the layers, then the head."""
    if getattr(model, "own", False) or not hasattr(model.backbone, "connections"):
        whose = "a module of your own" if getattr(model, "own", False) else "this backbone"
        raise ConfigError(
            f"this method must know which layer reads which units, and {whose} ({type(model.backbone).__name__}) does "
            f"not tell. Use a backbone that does, such as 'cnn', or another method, such as 'esacl-der++'."
        )
    listed: Sequence[Connection] = model.backbone.connections()  # type: ignore[operator]
    head = Connection("head", listed[-1].writes, HEAD, stage=listed[-1].stage)
    return (*(one.inside("backbone") for one in listed), head)
