"""What an exported file says of the model in it."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from esacl.deploy.model import InputScale, Trained
from esacl.documents import ClassName, Count, Positive, Share, as_record
from esacl.training.checkpoint import taking_over
from esacl.types import Params

Shape = tuple[Positive, Positive, Positive]


@dataclass(frozen=True, slots=True)
class _Net:
    """The network of an exported model."""

    backbone: str
    width: Annotated[int, Meta(ge=1, le=4096)] | None


@dataclass(frozen=True, slots=True)
class _About:
    """What an exported file says of its weights."""

    method: str
    net: _Net
    shape: Shape
    input: InputScale
    classes: tuple[ClassName, ...]
    tasks: tuple[tuple[Count, ...], ...]
    accuracy: dict[str, list[Share | None]]


def exported(about: dict[str, Any], weights: Params) -> Trained:
    """A model that was exported."""
    with taking_over("the exported model", "Export it again."):
        found = as_record(about, _About)
        return Trained(
            kind="export",
            method=found.method,
            backbone=found.net.backbone,
            width=found.net.width,
            shape=found.shape,
            scale=found.input,
            classes=found.classes,
            tasks=found.tasks,
            weights=weights,
            accuracy=found.accuracy,
        )
