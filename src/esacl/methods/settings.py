"""The settings of a method: checked, spelt out, and turned into parts."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from esacl.config import CHOSEN, SHORT_NAMES, SLOTS, Config
from esacl.errors import ConfigError
from esacl.methods.catalogue import METHODS, PARTS
from esacl.methods.contract import misfit
from esacl.methods.method import Method
from esacl.methods.names import compose
from esacl.nets import OwnNet, check_backbone, resolve_backbone, traits_of
from esacl.nets.weights import begins_with_weights
from esacl.options import parse
from esacl.presets import settings_of
from esacl.streams.base import Stream
from esacl.training.parts import Parts
from esacl.types import Columns, Context

NOTHING: Mapping[str, Any] = {}


def check_settings(config: Config, chosen: Method | None = None) -> dict[str, dict[str, Any]]:
    """Options of every slot, defaults included; what cannot be run is told here, before any data are read."""
    chosen = compose(config) if chosen is None else chosen
    check_backbone(config.net.backbone)
    options = _options(config, chosen)
    if config.train.scenario == "class-il" and chosen.needs_task(options):
        raise ConfigError(
            "{method} answers with the weights of the task that it is told, so there is no Class-IL, where nobody "
            "tells it; {given} was given.",
            "train.scenario",
            "class-il",
            remedy="Leave it out, or use a method without task ids, such as esacl-der++.",
            method=config.composition,
        )
    _check_still(config, chosen)
    check_held_out(config, chosen, config.stream.validation > 0)
    _check_together(config, chosen, options)
    return options


def _check_together(config: Config, chosen: Method, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse parts that do not fit each other, and settings that contradict each other."""
    reason = misfit({slot: chosen.part(slot) for slot in SLOTS})
    known = {**options, "train": {"columns": _columns(config, chosen, options)}}
    problems = (reason, *(chosen.part(slot).problem(known) for slot in SLOTS))
    problem = next((each for each in problems if each), None)
    if problem is not None:
        raise ConfigError(problem).within(config.composition)


def training_columns(config: Config, chosen: Method | None = None) -> Columns:
    """The rule of a run: the one asked for, or the method's own, also in runs of before there was a choice."""
    if config.train.columns is not None:
        return config.train.columns
    chosen = (compose(config) if chosen is None else chosen).switched(config.options)
    return _columns(config, chosen, _options(config, chosen))


def check_held_out(config: Config, chosen: Method, held_out: bool) -> None:
    """Refuse a run that needs validation examples where none are held out."""
    hold = "Hold some out ({stream.validation:0.1}), or "
    if config.train.split == "validation" and not held_out:
        raise ConfigError(
            "{given} has nothing to evaluate: {stream.validation:0} holds no training examples out.",
            "train.split",
            "validation",
            remedy=hold + "evaluate on the test split ({train.split:test}).",
        )
    if chosen.needs_validation and not held_out:
        raise ConfigError(
            "{method} watches validation accuracy to end a task, but {given} holds no training examples out.",
            "stream.validation",
            0,
            remedy=hold + "use another method.",
            method=config.method,
        )


def resolve(config: Config, stream: Stream, own: OwnNet | None = None, chosen: Method | None = None) -> Config:
    """The same run with every setting spelt out, those of a preset among them: its name is not needed any more."""
    chosen = compose(config) if chosen is None else chosen
    options = check_settings(config, chosen)
    backbone, width = resolve_backbone(config.net.backbone, config.net.width, stream.shape, own)
    net = traits_of(backbone, width, stream.shape, own)
    net = replace(net, pretrained=begins_with_weights(replace(config.net, backbone=backbone)))
    fill(options["sparsity"], chosen.part("sparsity").defaults(net, options["sparsity"]))
    left = chosen.switched(options)  # without the parts that the form for this network has no use for
    gone = chosen.parts.keys() - left.parts.keys()
    options |= {slot: _parse_options(config, left, slot, options["sparsity"]) for slot in gone}
    chosen = left
    for slot, values in options.items():
        fill(values, chosen.part(slot).defaults(net, values))
    _check_together(config, chosen, options)
    return replace(
        config,
        net=replace(config.net, backbone=backbone, width=width, freeze=_frozen(config, chosen)),
        train=replace(config.train, columns=_columns(config, chosen, options)),
        options={slot: values for slot, values in options.items() if values},
        preset=None,
    )


def _options(config: Config, chosen: Method) -> dict[str, dict[str, Any]]:
    """Options of every slot, defaults included; those that depend on other slots are filled."""
    options = {slot: _parse_options(config, chosen, slot) for slot in SLOTS}
    known = {**options, "train": {"columns": config.train.columns}}
    for slot, values in options.items():
        fill(values, chosen.part(slot).beside(known))
    return options


def _columns(config: Config, chosen: Method, options: Mapping[str, Mapping[str, Any]]) -> Columns:
    """Training columns of a method with these options; where nobody has a rule, `seen` with --fit-loss ace."""
    return config.train.columns or chosen.columns(options) or ("seen" if config.train.fit_loss == "ace" else "all")


def _frozen(config: Config, chosen: Method) -> str | None:
    """Layers that stay as they are: all of them where nothing is trained."""
    if chosen.trains or config.net.freeze == "all":
        return config.net.freeze
    if config.net.freeze is None:
        return "all"
    raise ConfigError(
        "{method} trains nothing, so all layers stay as they are, but {given} was given.",
        "net.freeze",
        config.net.freeze,
        remedy="Leave it out, or use a method that trains, such as er, with {parts.readout:lda}.",
        method=config.composition,
    )


def _check_still(config: Config, chosen: Method) -> None:
    """Refuse parts that change how weights move, where none does."""
    idle = [slot for slot in chosen.parts if slot not in ("objective", "readout")]
    if not chosen.trains and idle:
        raise ConfigError(
            "{method} trains nothing, so {part} has nothing to do.",
            remedy="Leave it out, or use a method that trains, such as er, with {parts.readout:lda}.",
            method=config.composition,
            part=chosen.parts[idle[0]].__name__,
        )


def fill(values: dict[str, Any], suited: Mapping[str, Any]) -> None:
    """Set the options that were left open."""
    values.update({name: suited[name] for name, value in values.items() if value is None and name in suited})


def build_parts(config: Config, context: Context, chosen: Method | None = None) -> Parts:
    """The parts of a resolved run."""
    chosen = (compose(config) if chosen is None else chosen).switched(config.options)
    built: dict[str, Any] = {}
    for slot in SLOTS:
        part = chosen.part(slot)
        built[slot] = part(parse(part.Options, config.options.get(slot, {}), slot), context)
    return Parts(**built)


def _parse_options(config: Config, chosen: Method, slot: str, settled: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Checked options of a slot, defaults included; an option without a use is an error that says so.

    `settled` are options of the sparsity slot that were left open, where they are known already.
    """
    given = config.options.get(slot, {})
    allowed = chosen.options(slot)
    if config.preset is not None:  # a preset is for many methods: what this one has no use for is left out
        preset = settings_of(config.preset, config.stream.name).get(slot, {})
        given = {key: value for key, value in given.items() if key in allowed or preset.get(key) != value}
    for key, value in given.items():
        if key not in allowed and (reason := _no_use(config, chosen, slot, key, settled)):
            wrong = f"method {{method!r}} has no use for {{given}}{reason[0]}."
            raise ConfigError(wrong, f"{slot}.{key}", value, remedy=reason[1], method=config.composition)
    return asdict(parse(chosen.part(slot).Options, given, slot))


def _no_use(config: Config, chosen: Method, slot: str, key: str, settled: Mapping[str, Any]) -> tuple[str, str] | None:
    """When a method has no use for an option, and what to do; None for an option that nobody knows."""
    parts = [name for name, part in PARTS[slot].items() if key in {f.name for f in fields(part.Options)}]
    switch = next((path for path, part in chosen.switches.items() if part == slot), None)
    if parts and slot not in chosen.parts and switch is not None:
        above, _, name = switch.partition(".")
        known = {**settled, name: None, **config.options.get(above, {})}
        off, on = chosen.part(above).switched_off(name, known)
        needed = " and ".join(f"{{{above}.{each}}}" for each in on)
        return f" while {{{above}.{off}}}", f"Leave it out, or use {needed}."
    users = sorted(other for other, row in METHODS.items() if key in row.options(slot))
    if users:
        named = " or ".join(f"{{parts.{slot}:{name}}}" for name in parts)
        choice = f" Parts that do: {named}." if slot in CHOSEN else ""
        return "", f"Methods that use it: {', '.join(users)}.{choice} Leave it out."
    return ("", "No method uses it yet. Leave it out.") if f"{slot}.{key}" in SHORT_NAMES.values() else None
