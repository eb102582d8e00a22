"""Methods by name: which part fills which slot. The only module that sees all axes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NoReturn

from esacl.config import SHORT_NAMES, SLOTS, Config
from esacl.errors import ConfigError, unknown_name
from esacl.nets import OwnNet, check_backbone, resolve_backbone
from esacl.objectives.co2l import Co2l
from esacl.objectives.derpp import Derpp
from esacl.objectives.er import Er
from esacl.objectives.ewc import Ewc
from esacl.objectives.finetune import Finetune
from esacl.objectives.icarl import Icarl, NearestMean
from esacl.objectives.lwf import Lwf
from esacl.objectives.mtl import Mtl
from esacl.objectives.probe import LinearProbe
from esacl.objectives.readout import Readout
from esacl.optim.adam import AdamUpdate
from esacl.optim.constraint import StepConstraint
from esacl.optim.gpm import Gpm
from esacl.optim.gradient import GradientRule
from esacl.optim.la_maml import LearnedRates, Lookahead
from esacl.optim.polytope_update import PolytopeUpdate
from esacl.optim.sharpness import SharpnessAware
from esacl.optim.update import UpdateRule
from esacl.options import parse
from esacl.part import Part
from esacl.presets import settings_of
from esacl.selection.base import KeepAll
from esacl.selection.ranked import Ranked
from esacl.selection.removal import LossRemoval, Removal
from esacl.sparsity.base import Dense
from esacl.sparsity.esacl import Esacl
from esacl.sparsity.nispa import Nispa
from esacl.sparsity.packnet import Packnet
from esacl.sparsity.sparcl import Sparcl
from esacl.sparsity.wsn import Wsn
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

ALIKE = "mlp"
"""The backbone whose settings suit a network of the user's own where none are given (docs/decisions.md)."""

FLAGS = {path: f"--{name.replace('_', '-')}" for name, path in SHORT_NAMES.items()}
"""Settings that have a flag of their own on the command line."""


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the comparison: the slots it fills, in its own words."""

    about: str
    parts: Mapping[str, type[Part]] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)  # option → slot that is left open where it is false

    def part(self, slot: str) -> type[Part]:
        """What fills a slot."""
        return self.parts.get(slot, DEFAULT_PARTS[slot])

    @property
    def needs_task_id(self) -> bool:
        """Whether it can answer only when told the task."""
        return bool(getattr(self.part("sparsity"), "needs_task_id", False))

    @property
    def needs_validation(self) -> bool:
        """Whether it watches validation examples while it trains."""
        return bool(getattr(self.part("sparsity"), "needs_validation", False))

    def switched(self, options: Mapping[str, Mapping[str, Any]]) -> "Method":
        """The method without the parts that options switch off."""
        off = {slot for path, slot in self.switches.items() if _setting(options, path) is False}
        return replace(self, parts={slot: part for slot, part in self.parts.items() if slot not in off})

    def options(self, slot: str) -> list[str]:
        """Names of a slot's options."""
        return [f.name for f in fields(self.part(slot).Options)]


def combine(about: str, *rows: Method) -> Method:
    """One method from several; each slot may be claimed once."""
    parts: dict[str, type[Part]] = {}
    switches: dict[str, str] = {}
    for row in rows:
        for slot, part in row.parts.items():
            if slot in parts:
                raise ConfigError(
                    f"{parts[slot].__name__} and {part.__name__} both claim the {slot} slot, which only one can fill. "
                    f"Combine methods that fill different slots, or leave one of the two out."
                )
            parts[slot] = part
        switches |= row.switches
    return Method(about, parts, switches)


ER = Method("experience replay: rehearse stored examples (Chaudhry 2019)", {"objective": Er})
DERPP = Method("dark experience replay: rehearse labels and logits (Buzzega 2020)", {"objective": Derpp})
CO2L = Method(
    "contrastive features, relations distilled, linear probe (Cha 2021)", {"objective": Co2l, "readout": LinearProbe}
)
EWC = Method("elastic weight consolidation: hold weights that mattered (Kirkpatrick 2017)", {"objective": Ewc})
GPM = Method("gradient projection memory: step where old tasks read nothing (Saha 2021)", {"constraint": Gpm})
ESACL = Method(
    "sharpness-aware directional pruning and data selection (Ren & Honavar 2024)",
    {"gradient": SharpnessAware, "update": PolytopeUpdate, "sparsity": Esacl, "selection": Ranked},
    {"sparsity.sharpness": "gradient", "sparsity.polytope": "update"},
)
SPARCL = Method(
    "few live weights that change places, few of which move, on ever fewer data (Wang 2022)",
    {"sparsity": Sparcl, "selection": Removal},
    {"sparsity.ddr": "selection"},
)
SPARCL_FEATURES = replace(SPARCL, parts={**SPARCL.parts, "selection": LossRemoval})  # where logits mean nothing yet
NISPA = Method("units that carry a task are fixed, others wired anew (Gurbuz 2022)", {"sparsity": Nispa})
METHODS: dict[str, Method] = {
    "finetune": Method("cross-entropy on whatever arrives; the lower bound"),
    "mtl": Method("all tasks at once; the upper bound", {"objective": Mtl}),
    "ewc": EWC,
    "lwf": Method("learning without forgetting: distil the old answers (Li & Hoiem 2017)", {"objective": Lwf}),
    "gpm": GPM,
    "er": ER,
    "der++": DERPP,
    "co2l": CO2L,
    "icarl": Method(
        "exemplars by herding, nearest class mean (Rebuffi 2017)", {"objective": Icarl, "readout": NearestMean}
    ),
    "la-maml": Method(
        "look-ahead meta-learning with learned rates (Gupta 2020)",
        {"objective": Er, "gradient": Lookahead, "update": LearnedRates},
    ),
    "packnet": Method("weights of each task's own: prune, retrain, own (Mallya 2018)", {"sparsity": Packnet}),
    "wsn": Method(
        "winning subnetworks: a learned mask for each task (Kang 2022)", {"sparsity": Wsn, "update": AdamUpdate}
    ),
    "nispa": NISPA,
    "sparcl": SPARCL,
    "sparcl-ewc": combine("SparCL on top of ewc", SPARCL, EWC),
    "sparcl-er": combine("SparCL on top of er", SPARCL, ER),
    "sparcl-der++": combine("SparCL on top of der++", SPARCL, DERPP),
    "sparcl-co2l": combine("SparCL on top of co2l", SPARCL_FEATURES, CO2L),
    "esacl": ESACL,
    "esacl-ewc": combine("EsaCL on top of ewc", ESACL, EWC),
    "esacl-er": combine("EsaCL on top of er", ESACL, ER),
    "esacl-der++": combine("EsaCL on top of der++", ESACL, DERPP),
    "esacl-co2l": combine("EsaCL on top of co2l", ESACL, CO2L),
}

ON_BASES = {"esacl": ESACL, "sparcl": SPARCL}
"""Methods whose name before that of another means both together."""


def method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        above, _, base = name.partition("-")
        if above in ON_BASES and base in METHODS:
            _explain(above, base)
        raise unknown_name("method", name, METHODS, "`esacl methods` describes them.")
    return METHODS[name]


def _explain(above: str, base: str) -> NoReturn:
    """Why there is no method of two names."""
    there = ", ".join(name for name in METHODS if name.startswith(f"{above}-"))
    try:
        combine(f"{above}-{base}", ON_BASES[above], METHODS[base])
    except ConfigError as error:
        raise ConfigError(f"{above} and {base} cannot be combined: {error} There are {there}.") from None
    raise ConfigError(
        f"{above} and {base} would fit together, but nobody has tried: '{above}-{base}' is no method here. "
        f"There are {there}."
    )


def check_settings(config: Config) -> dict[str, dict[str, Any]]:
    """Options of every slot, defaults included; what cannot be run is told here, before any data are read."""
    chosen = method(config.method).switched(config.options)
    check_backbone(config.net.backbone)
    options = {slot: _parse_options(config, chosen, slot) for slot in SLOTS}
    if config.train.scenario == "class-il" and chosen.needs_task_id:
        raise ConfigError(
            f"{config.method} answers with the weights of the task that it is told, so there is no Class-IL, where "
            f"nobody tells it; --scenario class-il was given. Leave it out, or use a method without task ids, "
            f"such as esacl-der++."
        )
    check_held_out(config, config.stream.validation > 0)
    for slot in SLOTS:
        if problem := chosen.part(slot).problem(options):
            raise ConfigError(f"{config.method}: {problem}")
    return options


def check_held_out(config: Config, held_out: bool) -> None:
    """Refuse a run that needs validation examples where none are held out."""
    remedy = "Hold some out (stream.validation = 0.1)"
    if config.train.split == "validation" and not held_out:
        raise ConfigError(
            f"--split validation (train.split) has nothing to evaluate: stream.validation = 0 holds no training "
            f"examples out. {remedy}, or evaluate on the test split (--split test)."
        )
    if method(config.method).needs_validation and not held_out:
        raise ConfigError(
            f"{config.method} watches validation accuracy to know when a task ends, but stream.validation = 0 holds no "
            f"training examples out. {remedy}, or use another method."
        )


def resolve(config: Config, stream: Stream, own: OwnNet | None = None) -> Config:
    """The same run with every setting spelt out, those of a preset among them: its name is not needed any more."""
    options = check_settings(config)
    backbone, width = resolve_backbone(config.net.backbone, config.net.width, stream.shape, own)
    chosen = method(config.method).switched(options)
    for slot, values in options.items():
        suited = chosen.part(slot).defaults(backbone if own is None else ALIKE, values)
        values.update({name: suited[name] for name, value in values.items() if value is None and name in suited})
    return replace(
        config,
        net=replace(config.net, backbone=backbone, width=width),
        options={slot: values for slot, values in options.items() if values},
        preset=None,
    )


def build_parts(config: Config, context: Context) -> Parts:
    """The parts of a resolved run."""
    chosen = method(config.method).switched(config.options)
    built: dict[str, Any] = {}
    for slot in SLOTS:
        part = chosen.part(slot)
        built[slot] = part(parse(part.Options, config.options.get(slot, {}), slot), context)
    return Parts(**built)


def _setting(options: Mapping[str, Mapping[str, Any]], path: str) -> Any:
    """The value at `slot.name`, if it was given."""
    slot, _, name = path.partition(".")
    return options.get(slot, {}).get(name)


def _parse_options(config: Config, chosen: Method, slot: str) -> dict[str, Any]:
    """Checked options of a slot, defaults included; an option without a use is an error that says so."""
    given = config.options.get(slot, {})
    allowed = chosen.options(slot)
    if config.preset is not None:  # a preset is for many methods: what this one has no use for is left out
        preset = settings_of(config.preset, config.stream.name).get(slot, {})
        given = {key: value for key, value in given.items() if key in allowed or preset.get(key) != value}
    for key, value in given.items():
        if key not in allowed and (reason := _no_use(config.method, slot, key)):
            flag = FLAGS.get(f"{slot}.{key}", "")
            named = f"{flag} ({slot}.{key})" if flag else f"{slot}.{key}"
            raise ConfigError(f"method {config.method!r} has no use for {named} = {value!r}{reason}")
    return asdict(parse(chosen.part(slot).Options, given, slot))


def _no_use(name: str, slot: str, key: str) -> str:
    """Why a method has no use for an option, and what to do; nothing for an option that nobody knows."""
    whole = method(name)
    if key in whole.options(slot):
        switch = next(path for path, part in whole.switches.items() if part == slot)
        return f" while {switch} = false. Leave one of the two out."
    users = sorted(other for other, row in METHODS.items() if key in row.options(slot))
    if users:
        return f". Methods that use it: {', '.join(users)}. Leave it out."
    return ". No method uses it yet. Leave it out." if f"{slot}.{key}" in FLAGS else ""
