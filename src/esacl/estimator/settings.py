"""From a classifier's parameters to the settings of a run, and what may change between two tasks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esacl.config import SLOTS, Config, NetConfig, place_settings
from esacl.errors import ConfigError, unknown_name
from esacl.estimator.layout import InputLayout
from esacl.estimator.learner import ClassifierPlan
from esacl.machine import resolve_machine
from esacl.methods import Method, check_settings, compose, resolve
from esacl.methods.names import as_method
from esacl.nets import OwnNet, is_own, is_small, name_of, own_net
from esacl.nets.pretrained import scale_of
from esacl.nets.weights import with_weights
from esacl.options import check
from esacl.short_names import as_keyword
from esacl.streams.inputs import ImageInputs
from esacl.streams.resize import Rule

NAMED = (
    "method",
    "sparsity",
    "buffer",
    "epochs",
    "batch_size",
    "lr",
    "backbone",
    "width",
    "weights",
    "freeze",
    "columns",
    "device",
)
"""Parameters that are settings of a run under the same name."""

FREE = {"train", "update", "machine"}
"""Tables that may change from task to task; what else a classifier is made of stays."""

RATIO = 0.25
"""Share of the weights left that a task takes where nobody knows how many will come (docs/estimator.md)."""


def as_parameter(setting: str, *value: Any) -> str:
    """The names of a classifier's parameters; what is none of them is one of its options.

    >>> as_parameter("update.lr", 0.1), as_parameter("selection.keep", 0.5), as_parameter("selection.keep")
    ('lr=0.1', "options={'selection': {'keep': 0.5}}", "options['selection']['keep']")
    """
    setting = "method" if setting == "code" else setting  # no other code can be given to a saved classifier
    short = as_keyword(setting)
    slot, _, key = setting.rpartition(".")
    if short in NAMED or slot not in (*SLOTS, "parts"):
        return as_keyword(setting, *value)
    return f"options={{{slot!r}: {{{key!r}: {value[0]!r}}}}}" if value else f"options[{slot!r}][{key!r}]"


def settings(params: Mapping[str, Any], seed: int) -> tuple[Config, Method]:
    """The run that a classifier's parameters describe, and its method; what no classifier can be is refused."""
    check(params["max_classes"], int, "max_classes", {"low": 1, "high": 1_000_000})
    check(params["expected_tasks"], int | None, "expected_tasks", {"low": 1, "high": 1_000_000})
    check(params["holdout"], float, "holdout", {"low": 0, "high": 0.5})
    check(params["resize"], Rule, "resize", {})
    options = {} if params["options"] is None else params["options"]
    if not isinstance(options, Mapping) or not all(isinstance(table, Mapping) for table in options.values()):
        allowed = "dicts by slot, such as {'update': {'momentum': 0.8}}"
        raise ConfigError("{given} is not allowed.", "options", options, allowed=allowed)
    for slot in options:
        if slot not in (*SLOTS, "parts"):
            raise unknown_name("table of options", str(slot), (*SLOTS, "parts"))
    tables: dict[str, Any] = {slot: dict(values) for slot, values in options.items()}
    given = {name: params[name] for name in NAMED}
    name = None if given["backbone"] is None else name_of(given["backbone"])
    method = given["method"]
    if isinstance(method, Method):
        given["method"] = as_method(method, "method").name
    place_settings(tables, {"seed": seed, **given, "backbone": name})
    config = Config.from_mapping(tables)
    chosen = compose(config, method if isinstance(method, Method) else None, config.code())
    _check_method(config, chosen)
    config = _with_competing_tasks(config, chosen)
    if params["expected_tasks"] is None and "quota" in chosen.options("sparsity"):
        config = _with_open_end(config)
    check_settings(config, chosen)
    return config, chosen


def _check_method(config: Config, chosen: Method) -> None:
    """Refuse methods that need to know more than a classifier is told."""
    if chosen.joint:
        raise ConfigError(
            f"{config.method} learns all tasks at once, but here they arrive one by one. Use another method, such as "
            f"'esacl-der++'; with all data at hand, fit any method once."
        )
    if chosen.needs_task_id or chosen.needs_task(check_settings(config, chosen)):
        raise ConfigError(
            f"{config.method} answers with the weights of the task that it is told, but nobody tells predict the task. "
            f"Use a method without task ids, such as 'esacl-der++'; `esacl run` trains {config.method}."
        )


def _with_competing_tasks(config: Config, chosen: Method) -> Config:
    """Where none are given, the columns with which a method answers best when nobody tells it the task."""
    chosen = chosen.switched(config.options)
    rules = [part.untold_columns for part in chosen.parts.values() if part.untold_columns is not None]
    if config.train.columns is not None or not rules:
        return config
    return replace(config, train=replace(config.train, columns=rules[0]))


def _with_open_end(config: Config) -> Config:
    """The geometric quota where none was asked for: shares of equal size need the number of tasks."""
    given = config.options.get("sparsity", {})
    if given.get("quota") == "even":
        raise ConfigError(
            "{given} divides the weights by the number of tasks, which is not known.",
            "sparsity.quota",
            "even",
            remedy="Give {expected_tasks}, or use {sparsity.quota:geometric}.",
        )
    return config.with_options(sparsity={"quota": "geometric", "ratio": RATIO, **given})


def own_of(params: Mapping[str, Any], config: Config, shape: tuple[int, int, int]) -> OwnNet | None:
    """The network, where it is the user's."""
    return own_net(params["backbone"], shape, config.seed) if is_own(config.net.backbone) else None


def resolved(
    config: Config,
    shape: tuple[int, int, int],
    threads: int | None = None,
    own: OwnNet | None = None,
    chosen: Method | None = None,
) -> Config:
    """The same with everything spelt out for examples of that shape; `threads` are those of before, if any."""
    stream = ClassifierPlan(config, shape, ImageInputs((0.0,), (1.0,)), columns=1).stream(((0,),))
    whole = resolve(config, stream, own, chosen)
    machine = replace(whole.machine, threads=threads)
    return replace(whole, machine=resolve_machine(machine, small=is_small(whole.net.backbone)))


def scaled_for(layout: InputLayout, net: NetConfig, own: OwnNet | None) -> InputLayout:
    """The layout with the scale of images that pre-trained weights are for."""
    told = with_weights(net, None if own is None else own.module).normalise
    scale = None if told is None or layout.stored != "uint8" else scale_of(told, layout.shape[0])
    return layout if scale is None else replace(layout, mean=scale[0], std=scale[1])


def check_unchanged(before: ClassifierPlan, now: ClassifierPlan) -> None:
    """Refuse to go on with another method, network or memory than a classifier began with."""
    old, new = (
        {
            **plan.config.to_mapping(),
            "columns": plan.config.train.columns,
            "max_classes": plan.columns,
            "expected_tasks": plan.expected,
        }
        for plan in (before, now)
    )
    for table in sorted({*old, *new} - FREE):
        if old.get(table) != new.get(table):
            raise ConfigError(
                f"{table} was {old.get(table)!r} when this classifier began to learn and is {new.get(table)!r} now. "
                f"Between tasks only epochs, batch_size, lr, device and options of 'update' may change. "
                f"Set it back, or start anew with fit."
            )
