"""Who reads whom: which group of units every layer reads, and which one it writes."""

from dataclasses import dataclass

from torch import nn

from esacl.nets.stages import Stages
from esacl.nets.tracing import IMAGE, Traced

__all__ = ["HEAD", "IMAGE", "Connection", "connections", "stages_of"]

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
    later: tuple[str, ...] = ()  # further BatchNorm of the group, such as that of a sum; listed with one of its layers
    stage: int = 0  # part of the backbone that it belongs to (`Stages`)
    places: int = 1  # columns of the weight for each unit read: those of a flattened map lie side by side
    depthwise: bool = False  # one column in all: each unit reads itself, in the group that it writes

    @property
    def weight(self) -> str:
        """Name of its weight, [units written, units read, ...]."""
        return f"{self.layer}.weight"

    @property
    def norms(self) -> tuple[str, ...]:
        """All BatchNorm that is listed with it."""
        return self.later if self.norm is None else (self.norm, *self.later)

    def columns(self, units: int) -> int:
        """How many columns its weight has if it reads so many units."""
        return 1 if self.depthwise else units * self.places


def stages_of(model: nn.Module) -> Stages:
    """The stages of a model's backbone."""
    return Stages(Traced(model.backbone, model.shape))  # type: ignore[arg-type]


def connections(model: nn.Module, stages: Stages | None = None) -> tuple[Connection, ...]:
    """All connections of a model, those of its backbone in the order of the calls, then the head."""
    stages = stages or stages_of(model)
    traced = stages.traced
    found = []
    for layer, (call, read) in traced.layers.items():
        own = {norm: node for norm, (node, normed) in traced.norms.items() if normed == layer}
        alone = next((norm for norm, node in own.items() if list(call.users) == [node]), None)
        found.append(
            Connection(
                layer,
                traced.group(read),
                traced.writes(layer),
                alone,
                tuple(norm for norm in own if norm != alone),
                stages.of[layer],
                read.places,
                depthwise=getattr(model.get_submodule(layer), "groups", 1) > 1,
            )
        )
    read = traced.units[traced.answer]
    return (*found, Connection("head", traced.group(read), HEAD, stage=found[-1].stage, places=read.places))
