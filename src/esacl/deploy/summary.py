"""What there is to know of a model: the document behind `esacl inspect`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from esacl.deploy.model import InputScale, Label, Trained
from esacl.nets.partition import overall_density


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer, and how many of them are in use."""

    name: str
    shape: tuple[int, ...]
    weights: int
    in_use: int
    density: float


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """Classes that arrived together, and how many of their test images are answered rightly, where that is known."""

    number: int
    classes: tuple[Label, ...]
    task_il: float | None  # among the classes of the task
    class_il: float | None  # among all classes


@dataclass(frozen=True, slots=True)
class Summary:
    """A model in figures. Density and weights in use leave head, biases and normalisation out: they are always used."""

    kind: str
    method: str
    backbone: str
    width: int | None  # none for a network of the user's own
    shape: tuple[int, int, int]
    input: InputScale
    needs_task: bool
    classes: tuple[Label, ...]
    tasks: tuple[TaskSummary, ...]
    layers: tuple[Layer, ...]
    density: float
    weights: int  # of the layers
    weights_in_use: int
    parameters: int  # with head, biases and normalisation
    bytes: int  # of the file

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"schema": 1, **asdict(self)}


def summary(model: Trained, path: Path) -> Summary:
    """The figures of the model at `path`."""
    densities = model.densities()
    layers = tuple(_layer(model, name, density) for name, density in densities.items())
    file = path / "model.safetensors" if path.is_dir() else path
    return Summary(
        kind=model.kind,
        method=model.method,
        backbone=model.backbone,
        width=model.width,
        shape=model.shape,
        input=model.scale,
        needs_task=model.needs_task,
        classes=model.classes,
        tasks=tuple(_task(model, index) for index in range(len(model.tasks))),
        layers=layers,
        density=overall_density(densities, {layer.name: layer.weights for layer in layers}),
        weights=sum(layer.weights for layer in layers),
        weights_in_use=sum(layer.in_use for layer in layers),
        parameters=sum(value.numel() for value in model.weights.values() if value.is_floating_point()),
        bytes=file.stat().st_size,
    )


def _layer(model: Trained, name: str, density: float) -> Layer:
    value = model.weights[name]
    return Layer(name, tuple(value.shape), value.numel(), round(density * value.numel()), density)


def _task(model: Trained, index: int) -> TaskSummary:
    told = {name: shares[index] for name, shares in model.accuracy.items()}
    classes = tuple(model.classes[column] for column in model.tasks[index])
    return TaskSummary(index + 1, classes, told.get("task_il"), told.get("class_il"))
