"""A trained network with all that is needed to use it, wherever it came from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from esacl.deploy.tasks import own_weights, used
from esacl.documents import Finite, Spread
from esacl.errors import CheckpointError, ConfigError, RunError
from esacl.metrics.evaluation import Label as Label
from esacl.nets import Model, OwnNet, check_backbone, outline
from esacl.nets.choice import CHOICE, TaskChoice
from esacl.nets.compact import Compact
from esacl.nets.expansion import SEED
from esacl.nets.macs import macs_per_example
from esacl.nets.partition import partition
from esacl.nets.room import building
from esacl.nets.widths import set_widths, widths_of
from esacl.streams.resize import Rule
from esacl.types import Params


@dataclass(frozen=True, slots=True)
class InputScale:
    """What an example is before the network sees it, and the mean and spread of each channel.

    Bytes are images of 0 to 255, whose mean and spread are those of 0 to 1. Images of floats and features have the
    scale that they were learnt in.
    """

    kind: Literal["bytes", "floats", "features"]
    mean: tuple[Finite, ...]
    std: tuple[Spread, ...]
    resize: Rule = "squash"  # image files of another shape, as training did; the first versions squashed them


@dataclass(frozen=True, slots=True)
class Kept:
    """Examples that a model holds: bytes, or in the scale that it reads."""

    what: str
    x: Tensor
    y: Tensor  # columns

    def with_columns(self, columns: Sequence[int]) -> "Kept":
        """Those of these columns of the head, which get a new order."""
        places = {column: place for place, column in enumerate(columns)}
        rows = [row for row, column in enumerate(self.y.tolist()) if column in places]
        y = torch.tensor([places[column] for column in self.y[rows].tolist()], dtype=torch.int64)
        return Kept(self.what, self.x[rows], y)


@dataclass(frozen=True, slots=True)
class Trained:
    """Weights as they answer: one column of the head for each class that was learnt."""

    kind: Literal["classifier", "run", "export", "onnx"]
    method: str
    backbone: str
    width: int | None  # of a backbone of this library
    shape: tuple[int, int, int]
    scale: InputScale
    classes: tuple[Label, ...]  # by column
    tasks: tuple[tuple[int, ...], ...]  # columns of each
    weights: Params
    beside: Params = field(default_factory=dict)  # masks and normalisation of each task, where a task has its own
    own: OwnNet | None = None  # the network, where it is the user's
    accuracy: Mapping[str, Sequence[float | None]] = field(
        default_factory=dict
    )  # of each task after the last, where known
    kept: tuple[Kept, ...] = ()  # examples that it holds, where it holds any
    history: Sequence[Mapping[str, Any]] = ()  # what it has noted of each task it learnt, where it has

    def __post_init__(self) -> None:
        """Refuse what does not belong together, whatever file it came from."""
        channels, columns = self.shape[0], {column for own in self.tasks for column in own}
        if len(self.scale.mean) not in (1, channels) or len(self.scale.std) not in (1, channels):
            raise self._unlike(f"its scale is not that of {channels} channels")
        if columns - {*range(len(self.classes))}:
            raise self._unlike(f"its tasks have more classes than the {len(self.classes)} that are named")
        if any(len(shares) != len(self.tasks) for shares in self.accuracy.values()):
            raise self._unlike(f"it does not have one accuracy for each of {len(self.tasks)} tasks")
        check_backbone(self.backbone)

    def _unlike(self, why: str) -> CheckpointError:
        return CheckpointError(
            f"the model is damaged, or of another version of esacl: {why}. Train or export it again."
        )

    @property
    def needs_task(self) -> bool:
        """Whether it can answer only when told the task."""
        return bool(self.beside)

    @property
    def prunable(self) -> tuple[str, ...]:
        """Names of the weights that a method may leave out: all but the head and the biases."""
        return partition(self._outline()).prunable

    def densities(self) -> dict[str, float]:
        """Share of the weights in use, by layer."""
        shapes = {name: value.shape for name, value in self._outline().state_dict().items()}
        if any(name not in self.weights or self.weights[name].shape != shapes[name] for name in self.prunable):
            raise self._unfit()
        masks = used(self.weights, self.beside, self.prunable)
        return {name: mask.sum().item() / mask.numel() for name, mask in masks.items()}

    def for_task(self, number: int | None) -> "Trained":
        """The model as it answers when told that examples are of that task, counted from 1; None: it is not told."""
        if number is None:
            if self.needs_task:
                raise ConfigError(
                    f"{self.method} answers with other weights for every task, so it must be told the task of the "
                    f"images. Add --task N, with N from 1 to {len(self.tasks)}; `esacl inspect` says which classes "
                    f"each has."
                )
            return self
        if not 1 <= number <= len(self.tasks):
            raise ConfigError(f"there is no task {number}. Allowed: 1 to {len(self.tasks)}.")
        columns = self.tasks[number - 1]
        weights = own_weights(self.weights, self.beside, number - 1)
        accuracy = {name: [shares[number - 1]] for name, shares in self.accuracy.items()}
        told = replace(self, weights=weights, beside={}, tasks=(columns,), accuracy=accuracy)
        return told.with_columns(columns)

    def with_columns(self, columns: tuple[int, ...]) -> "Trained":
        """The same with these columns of the head, in this order."""
        place = {column: new for new, column in enumerate(columns)}
        rows = list(columns)
        head = {name: value for name, value in self.weights.items() if name.startswith(("head.", CHOICE))}
        if any(not value.ndim or len(value) <= max(rows, default=0) for value in head.values()):
            raise self._unfit()
        return replace(
            self,
            classes=tuple(self.classes[column] for column in columns),
            tasks=tuple(tuple(sorted(place[column] for column in own)) for own in self.tasks),
            weights={**self.weights, **{name: value[rows] for name, value in head.items()}},
            kept=tuple(each.with_columns(columns) for each in self.kept),
        )

    def answering(self) -> nn.Module:
        """The module that turns examples into answers."""
        return Answering(self._loaded(), self.scale, self.shape).eval()

    def compacted(self) -> nn.Module:
        """The same without channels that no answer needs, branches of a grown network apart: fewer multiply-adds."""
        return Answering(Compact(self._loaded().eval()), self.scale, self.shape).eval()

    def _loaded(self) -> Model:
        """The network with its weights."""
        model = self._outline()
        wanted = {name: value.shape for name, value in model.state_dict().items()}
        if wanted != {name: value.shape for name, value in self.weights.items()}:
            raise self._unfit()
        with building(f"the network {self.backbone}", model):
            if self.own is None:
                model.to_empty(device="cpu")
            try:
                model.load_state_dict(self.weights)
            except RuntimeError:
                raise self._unfit() from None
            if model.expansion is not None:
                model.expansion.draw()
        return model

    def multiply_adds(self) -> int:
        """Multiply-adds of an example in the dense network."""
        return sum(macs_per_example(self._loaded(), self.shape).values())

    def _unfit(self) -> RunError:
        width = "" if self.width is None else f" of width {self.width}"
        return RunError(
            f"the weights do not fit a {self.backbone}{width} with {len(self.classes)} classes: "
            f"the file is damaged, or of another version of esacl. Train or export the model again."
        )

    def about(self) -> dict[str, Any]:
        """What others need to know of the weights, as plain values."""
        return {
            "method": self.method,
            "net": {"backbone": self.backbone, "width": self.width},
            "shape": list(self.shape),
            "input": asdict(self.scale),
            "classes": list(self.classes),
            "tasks": [list(own) for own in self.tasks],
            "accuracy": dict(self.accuracy),
        }

    def _outline(self) -> Model:
        """The network with the shapes of its weights, but none of this library's: a file may ask for any size."""
        classes = len(self.classes)
        if self.own is not None:
            model = self.own.model(classes, 0)
        else:
            model = outline(self.backbone, self.width, self.shape, classes)
        shapes = {name: value.shape for name, value in model.state_dict().items()}
        changed = any(value.shape != shapes.get(name, value.shape) for name, value in self.weights.items())
        if changed and (widths := widths_of(model, self.weights)) is not None:
            set_widths(model, widths)  # it has grown, or channels of it were removed
        if SEED in self.weights:
            seed, head = self.weights[SEED], self.weights.get("head.weight", torch.empty(0))
            if seed.dtype != torch.int64 or seed.ndim or head.ndim != 2 or not head.numel():
                raise self._unfit()
            model.expand(int(seed), head.shape[1])
        if (member := self.weights.get(f"{CHOICE}member")) is not None:
            if member.dtype != torch.bool or member.ndim != 2:
                raise self._unfit()
            model.choice = TaskChoice(classes, member.shape[1], model.head.in_features)
        return model


class Answering(nn.Module):
    """Normalisation, network, softmax.

    Takes images [N, C, H, W] of 0 to 1 where the model has learnt from bytes; else images, or features [N, D], in the
    scale that it has learnt from.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, scale: InputScale, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.model = model
        self.shape = shape
        self.register_buffer("mean", torch.tensor(scale.mean, dtype=torch.float32).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(scale.std, dtype=torch.float32).view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits, [N, classes] each."""
        logits = self.model((x.view(-1, *self.shape) - self.mean) / self.std).logits
        return logits.softmax(1), logits
