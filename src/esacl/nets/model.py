"""The model: a backbone and one head with a column per class, initialised from a generator of its own."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, device, nn

from esacl import plugins
from esacl.code import is_own, message
from esacl.errors import CheckpointError, ConfigError, unknown_name
from esacl.nets.backbones import BACKBONES, Backbone, Shape
from esacl.nets.choice import TaskChoice
from esacl.nets.expansion import RandomExpansion
from esacl.nets.room import building
from esacl.nets.traits import NetTraits
from esacl.nets.user_code import FORM
from esacl.nets.widths import set_widths, widths_of
from esacl.rng import derive, generator
from esacl.types import Outputs

WHOLE = -1
"""The number of stages that stands for all of a backbone."""


class Model(nn.Module):
    """Features and logits, returned together."""

    def __init__(self, backbone: nn.Module, features: int, classes: int, shape: Shape) -> None:
        super().__init__()
        self.backbone = backbone
        self.shape = shape  # of an image
        self.draws: int | None = None  # seed of what it draws in training mode, such as dropout
        self.own = False  # whether the backbone is the user's
        self.held: tuple[str, ...] = ()  # modules that stay in evaluation mode, as nothing moves them
        self.frozen_stages = 0  # that come first and never move
        self.first: tuple[nn.Module, ...] = ()  # these stages by themselves, unless they are all
        self.rest: tuple[nn.Module, ...] = ()  # what of the backbone goes on from there, with the same layers
        self.replaced: str | None = None  # the layer of the user's network that the head replaces
        self.report: str | None = None  # of the weights that it began with
        self.expansion: RandomExpansion | None = None  # of the features that the head reads
        self.head = nn.Linear(features, classes)
        self.choice: TaskChoice | None = None  # of the task, before the head chooses the class

    def expand(self, seed: int, size: int) -> None:
        """Let the head read a random expansion of the features."""
        self.expansion = RandomExpansion(seed, self.head.in_features, size)
        self.head = nn.Linear(size, self.head.out_features, device="meta").to_empty(device="cpu")

    def forward(self, x: Tensor, since: int = 0) -> Outputs:
        """Features and logits of a batch; or what follows from the answers of so many stages that are frozen."""
        features = self.backbone(x) if since == 0 else x if since == WHOLE else self.rest[0](x)
        logits = self.head(features if self.expansion is None else self.expansion(features))
        return Outputs(features, logits if self.choice is None else self.choice(features, logits))


@dataclass(frozen=True, slots=True)
class OwnNet:
    """A network of the user's own, as it was found to be; the module is a copy, and every model has another."""

    name: str
    module: nn.Module
    features: int  # what it makes of an image
    shape: Shape  # of an image

    replaced: str | None = None  # its last layer in words, if that was a head
    draws: bool = False  # whether it draws random numbers in training mode

    @property
    def head(self) -> str | None:
        """The name of that layer."""
        return None if self.replaced is None else self.replaced.partition(" ")[0]

    def model(self, classes: int, seed: int) -> Model:
        """It, with its weights as they were given, and a fresh head."""
        with device("meta"):
            model = Model(nn.Identity(), self.features, classes, self.shape)
        with building(f"the network {self.name}", self.module, model):
            model.to_empty(device="cpu")
            initialise(model, seed)
            model.backbone, model.own, model.replaced = deepcopy(self.module), True, self.head
            model.draws = derive(seed, "dropout") if self.draws else None
        return model

    def like(self, weights: Mapping[str, Tensor]) -> Model:
        """A model as wide as one that such weights were taken from: it may have grown, or lost channels."""
        head = weights.get("head.weight", torch.empty(1))
        model = self.model(len(head) if head.ndim else 1, 0)
        if (widths := widths_of(model, weights)) is not None:
            set_widths(model, widths)
        return model

    def check_is_of(self, weights: Mapping[str, Tensor], where: str) -> None:
        """Refuse weights of another network, by the names and shapes of all that it stores; widths may differ."""
        model = self.like(weights)
        own = {name: tuple(value.shape) for name, value in model.state_dict().items() if name.startswith("backbone.")}
        theirs = {name: tuple(value.shape) for name, value in weights.items() if name.startswith("backbone.")}
        for name in sorted({*own, *theirs}, key=lambda name: (name in own and name in theirs, name)):
            if own.get(name) != theirs.get(name):
                has, lacks = _shape(own.get(name)), _shape(theirs.get(name))
                raise CheckpointError(
                    f"the network {self.name!r} is not the one that {where} was trained with: its "
                    f"{name.removeprefix('backbone.')!r} is {has}, there it is {lacks}. Give the code of then."
                )


def check_backbone(name: str) -> None:
    """Refuse a name that is not a backbone's; those of the user's own networks are seen when they are called."""
    if name != "auto" and not is_own(name):
        backbone_named(name)


def backbone_named(name: str) -> Backbone:
    """The backbone of that name, of this library or of a plugin."""
    if name in BACKBONES:
        return BACKBONES[name]
    found = plugins.load("backbones", name)
    if found is None:
        known = ["auto", *BACKBONES, *plugins.offered("backbones", BACKBONES)]
        raise unknown_name("backbone", name, known, f"A network of your own: {FORM}.")
    if not isinstance(found, Backbone):
        raise plugins.refused("backbones", name, f"{type(found).__name__} is no esacl.Backbone(build, width, ...).")
    return found


def is_small(name: str) -> bool:
    """Whether a backbone has no convolutions, and so too little work for several threads."""
    return not is_own(name) and not traits_of(name, None, (3, 64, 64)).convolutions


def resolve_backbone(name: str, width: int | None, shape: Shape, own: OwnNet | None = None) -> tuple[str, int | None]:
    """The backbone and width that are meant; "auto" takes an MLP below 16 pixels and the small ResNet above."""
    check_backbone(name)
    if is_own(name):
        if own is None:
            wrong = "the network {name!r} is your own, but was not given."
            raise ConfigError(wrong, remedy="Give it again: {net.backbone}.", name=name)
        if width is not None:
            wrong = "{given} was given, but {name!r} is as wide as its code says."
            raise ConfigError(wrong, "net.width", width, remedy="Leave it out.", name=name)
        return name, None
    small = min(shape[1:]) < 16
    chosen = ("mlp" if small else "resnet10") if name == "auto" else name
    entry = backbone_named(chosen)
    if min(shape[1:]) < entry.smallest:
        size = "×".join(map(str, shape))
        raise ConfigError(
            "{given} needs images of at least {least}×{least} pixels, but the stream's examples are {size}.",
            "net.backbone",
            chosen,
            remedy="Enlarge them ({stream.image_size:128})."
            if entry.pretrained
            else "Use {net.backbone:mlp}, which takes images of any size.",
            least=entry.smallest,
            size=size,
        )
    return chosen, entry.width if width is None else width


def build_model(
    backbone: str, width: int | None, shape: Shape, classes: int, seed: int, own: OwnNet | None = None
) -> Model:
    """A model with fresh weights that depend on the seed only; those of a network of the user's own stay."""
    if own is not None:
        return own.model(classes, seed)
    model = outline(backbone, width, shape, classes)
    with building(f"a {backbone} of width {width or backbone_named(backbone).width}", model):
        model.to_empty(device="cpu")
        initialise(model, seed)
    return model


def outline(backbone: str, width: int | None, shape: Shape, classes: int) -> Model:
    """A model without weights: names, shapes and layers, which take no memory and no random numbers."""
    with device("meta"):  # constructors would draw from the global generator
        body = _body(backbone, width, shape)
        return Model(body, body.features, classes, shape)  # type: ignore[arg-type]


def traits_of(backbone: str, width: int | None, shape: Shape, own: OwnNet | None = None) -> NetTraits:
    """What a backbone, or a network of the user's own, is like."""
    if own is not None:
        return NetTraits.of(own.module)
    with device("meta"):
        return NetTraits.of(_body(backbone, width, shape))


def _body(name: str, width: int | None, shape: Shape) -> nn.Module:
    """A backbone for examples of that shape."""
    entry = backbone_named(name)
    try:
        body = entry.build(shape, width or entry.width)
        int(body.features)  # type: ignore[arg-type]
    except Exception as error:
        if name in BACKBONES:
            raise
        raise plugins.refused(
            "backbones", name, f"build({shape}, {width or entry.width}) fails: {message(error)}."
        ) from None
    return body


def initialise(model: nn.Module, seed: int) -> None:
    """Kaiming-normal weights, zero biases, neutral BatchNorm; each tensor has a generator of its own name."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            own = generator(seed, "init", name)
            nn.init.kaiming_normal_(module.weight, nonlinearity="linear" if name == "head" else "relu", generator=own)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif next(module.parameters(recurse=False), None) is not None:
            raise ConfigError(f"no initialisation is known for the layer {name!r} of type {type(module).__name__}.")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else "×".join(map(str, shape)) or "a number"
