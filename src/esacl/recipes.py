"""Methods by name: which part fills which slot. The only module that sees all axes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from esacl.config import SHORT_NAMES, SLOTS, Config
from esacl.errors import ConfigError, unknown_name
from esacl.nets import check_backbone, resolve_backbone
from esacl.objectives.derpp import Derpp
from esacl.objectives.er import Er
from esacl.objectives.finetune import Finetune
from esacl.objectives.mtl import Mtl
from esacl.objectives.readout import Readout
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.optim.update import UpdateRule
from esacl.options import parse
from esacl.part import Part
from esacl.selection.base import KeepAll
from esacl.sparsity.base import Dense
from esacl.streams.base import Stream
from esacl.training.parts import Parts
from esacl.types import Context

DEFAULT_PARTS: dict[str, type[Part]] = {
    "objective": Finetune,
    "gradient": GradientRule,
    "update": UpdateRule,
    "constraint": StepConstraint,
    "sparsity": Dense,
    "selection": KeepAll,
    "readout": Readout,
}
"""What fills a slot that a method leaves open."""

LEARNING_RATES = {"mlp": 0.03, "cnn": 0.03, "resnet10": 0.01, "resnet18": 0.01}
"""Default learning rate of each backbone (see docs/decisions.md)."""

FLAGS = {path: f"--{name.replace('_', '-')}" for name, path in SHORT_NAMES.items()}
"""Settings that have a flag of their own on the command line."""


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the comparison: the slots it fills, in its own words."""

    about: str
    parts: Mapping[str, type[Part]] = field(default_factory=dict)

    def part(self, slot: str) -> type[Part]:
        """What fills a slot."""
        return self.parts.get(slot, DEFAULT_PARTS[slot])

    def options(self, slot: str) -> list[str]:
        """Names of a slot's options."""
        return [f.name for f in fields(self.part(slot).Options)]


METHODS: dict[str, Method] = {
    "finetune": Method("cross-entropy on whatever arrives; the lower bound"),
    "mtl": Method("all tasks at once; the upper bound", {"objective": Mtl}),
    "er": Method("experience replay: rehearse stored examples (Chaudhry 2019)", {"objective": Er}),
    "der++": Method("dark experience replay: rehearse labels and logits (Buzzega 2020)", {"objective": Derpp}),
}


def method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS, "`esacl methods` describes them.")
    return METHODS[name]


def combine(about: str, *rows: Method) -> Method:
    """One method from several; each slot may be claimed once."""
    parts: dict[str, type[Part]] = {}
    for row in rows:
        for slot, part in row.parts.items():
            if slot in parts:
                raise ConfigError(
                    f"{parts[slot].__name__} and {part.__name__} both claim the {slot} slot, which only one can fill. "
                    f"Combine methods that fill different slots, or leave one of the two out."
                )
            parts[slot] = part
    return Method(about, parts)


def check_settings(config: Config) -> dict[str, dict[str, Any]]:
    """Options of every slot, defaults included; what cannot be run is told here, before any data are read."""
    chosen = method(config.method)
    check_composition(config.method, chosen)
    check_backbone(config.net.backbone)
    return {slot: _parse_options(config, chosen, slot) for slot in SLOTS}


def resolve(config: Config, stream: Stream) -> Config:
    """The same run with every setting spelt out."""
    options = check_settings(config)
    backbone, width = resolve_backbone(config.net.backbone, config.net.width, stream.shape)
    if "lr" in options["update"] and options["update"]["lr"] is None:
        options["update"]["lr"] = LEARNING_RATES[backbone]
    return replace(
        config,
        net=replace(config.net, backbone=backbone, width=width),
        options={slot: values for slot, values in options.items() if values},
    )


def build_parts(config: Config, context: Context) -> Parts:
    """The parts of a resolved run."""
    chosen = method(config.method)
    built: dict[str, Any] = {}
    for slot in SLOTS:
        part = chosen.part(slot)
        built[slot] = part(parse(part.Options, config.options.get(slot, {}), slot), context)
    return Parts(**built)


def check_composition(name: str, chosen: Method) -> None:
    """Refuse combinations that mean nothing, before anything trains."""
    selection, gradient = chosen.part("selection"), chosen.part("gradient")
    if getattr(selection, "needs_ascent", False) and not getattr(gradient, "ascends", False):
        raise ConfigError(
            f"{name}: the selection {selection.__name__} picks examples for an ascent step, but the gradient rule "
            f"{gradient.__name__} has none. Use a sharpness-aware gradient rule, or another selection."
        )


def _parse_options(config: Config, chosen: Method, slot: str) -> dict[str, Any]:
    """Checked options of a slot, defaults included; an option without a use is an error that says so."""
    given = config.options.get(slot, {})
    allowed = chosen.options(slot)
    for key, value in given.items():
        users = sorted(name for name, row in METHODS.items() if key in row.options(slot))
        flag = FLAGS.get(f"{slot}.{key}", "")
        if key not in allowed and (flag or users):
            named = f"{flag} ({slot}.{key})" if flag else f"{slot}.{key}"
            remedy = f"Methods that use it: {', '.join(users)}." if users else "No method uses it yet."
            raise ConfigError(f"method {config.method!r} has no use for {named} = {value!r}. {remedy} Leave it out.")
    return asdict(parse(chosen.part(slot).Options, given, slot))
