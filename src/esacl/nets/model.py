"""The model: a backbone and one head with a column per class, initialised from a generator of its own."""

from torch import Tensor, device, nn

from esacl.errors import ConfigError, unknown_name
from esacl.nets.backbones import BACKBONES, Shape
from esacl.rng import generator
from esacl.types import Outputs


class Model(nn.Module):
    """Features and logits, returned together."""

    def __init__(self, backbone: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Outputs:
        """Features and logits of a batch."""
        features = self.backbone(x)
        return Outputs(features, self.head(features))


def check_backbone(name: str) -> None:
    """Refuse a name that is not a backbone's."""
    if name not in ("auto", *BACKBONES):
        raise unknown_name("backbone", name, ["auto", *BACKBONES])


def resolve_backbone(name: str, width: int | None, shape: Shape) -> tuple[str, int]:
    """The backbone and width that are meant; "auto" takes an MLP below 16 pixels and the small ResNet above."""
    check_backbone(name)
    small = min(shape[1:]) < 16
    chosen = ("mlp" if small else "resnet10") if name == "auto" else name
    entry = BACKBONES[chosen]
    if min(shape[1:]) < entry.smallest:
        size = "×".join(map(str, shape))
        raise ConfigError(
            f"backbone {chosen!r} needs images of at least {entry.smallest}×{entry.smallest} pixels, "
            f"but the stream's examples are {size}. Use backbone 'mlp' or 'cnn'."
        )
    return chosen, entry.width if width is None else width


def build_model(backbone: str, width: int, shape: Shape, classes: int, seed: int) -> Model:
    """A model with fresh weights that depend on the seed only."""
    with device("meta"):  # no memory and no random numbers yet: constructors would draw from the global generator
        body = BACKBONES[backbone].build(shape, width)
        model = Model(body, body.features, classes)  # type: ignore[arg-type]
    model.to_empty(device="cpu")
    initialise(model, seed)
    return model


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
