"""Settings by their short names: the flags of the command line and the keywords of `Config.of`."""

from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any

from esacl.errors import ConfigError, unknown_name
from esacl.problem import Naming, as_path, literal
from esacl.slots import CHOSEN, SLOTS
from esacl.toml import plain_value

SHORT_NAMES = {
    "method": "method",
    "seed": "seed",
    "stream": "stream.name",
    "data_dir": "stream.data_dir",
    "tasks": "stream.tasks",
    "classes_per_task": "stream.classes_per_task",
    "class_order": "stream.class_order",
    "limit_per_class": "stream.limit_per_class",
    "image_size": "stream.image_size",
    "resize": "stream.resize",
    "cache": "stream.cache",
    "augment": "stream.augment",
    "epochs": "train.epochs",
    "budget": "train.budget",
    "batch_size": "train.batch_size",
    "augment_copies": "train.augment_copies",
    "columns": "train.columns",
    "fit_loss": "train.fit_loss",
    "logit_mask": "train.logit_mask",
    "split": "train.split",
    "scenario": "train.scenario",
    "unpruned": "train.unpruned",
    "backbone": "net.backbone",
    "width": "net.width",
    "weights": "net.weights",
    "freeze": "net.freeze",
    "device": "machine.device",
    "precision": "machine.precision",
    "threads": "machine.threads",
    "feature_cache": "machine.feature_cache",
    "processes": "machine.processes",
    "lr": "update.lr",
    "backbone_lr": "update.backbone_lr",
    "buffer": "objective.buffer",
    "sparsity": "sparsity.level",
    "keep": "selection.keep",
    "rho": "gradient.rho",
    "preset": "preset",
    **{slot: f"parts.{slot}" for slot in CHOSEN},
}
"""Settings that have a flag on the command line and a keyword in `Config.of`: where each of them belongs."""


def place_settings(tables: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Put settings given by their short names into nested tables; None leaves what is there."""
    for name, value in settings.items():
        if name not in SHORT_NAMES:
            raise unknown_name("setting", name, SHORT_NAMES)
        if name == "backbone" and not isinstance(value, str | None):
            told = f"backbone = <{type(value).__name__}> is not allowed in settings, which are text and numbers."
            raise ConfigError(f"{told} Give the module beside them: esacl.run(settings, out, backbone=module).")
        if value is not None:
            part, _, key = SHORT_NAMES[name].rpartition(".")
            table = tables.setdefault(part, {}) if part else tables
            if not isinstance(table, dict):
                raise ConfigError(f"{part!r} is a table of options, but {table!r} was given.")
            table[key] = plain_value(value)


_SHORT = {path: name for name, path in SHORT_NAMES.items()}


def as_flags(in_file: Callable[[str], bool] = lambda setting: False) -> Naming:
    """The names of the command line; settings that a file gives have the file's names.

    >>> as_flags()("selection.keep"), as_flags()("selection.keep", 0.5), as_flags()("selection.redundant", True)
    ('--keep', '--keep 0.5', '--set selection.redundant=true')
    """

    def named(setting: str, *value: Any) -> str:
        short = _SHORT.get(setting, setting)
        if in_file(setting) or ("." in short and not value):
            return as_path(setting, *value)
        words = [each if isinstance(each, str) else literal(each) for each in value]
        if "." in short:
            return f"--set {quote(f'{setting}={words[0]}')}"
        return " ".join([f"--{short.replace('_', '-')}", *(quote(word) for word in words if word != "true")])

    return named


def as_keyword(setting: str, *value: Any) -> str:
    """The names of `Config.of`, and of `with_options` for options without a short name.

    >>> as_keyword("train.columns", "seen"), as_keyword("update.momentum", 0.8), as_keyword("update.momentum")
    ("columns='seen'", "with_options(update={'momentum': 0.8})", 'update.momentum')
    """
    short = _SHORT.get(setting, setting)
    part, _, key = short.rpartition(".")
    if not value or (part and part not in SLOTS):
        return short if not value else f"{setting} = {value[0]!r}"
    if key == "code":
        return f"code={list(value)!r}"
    return f"with_options({part}={{{key!r}: {value[0]!r}}})" if part else f"{key}={value[0]!r}"


GIVEN_AGAIN = ("method", "code", "net.backbone", "machine.processes", "out", "overwrite")
"""What is given beside settings of a file, or beside the directory of a run; all others are in the file."""


def as_recorded(setting: str, *value: Any) -> str:
    """The names of settings that a file gives, to a caller in Python."""
    return as_keyword(setting, *value) if setting in GIVEN_AGAIN else as_path(setting, *value)


def as_recipe(setting: str, *value: Any) -> str:
    """The names of a recipe.

    >>> as_recipe("selection.keep", 0.5), as_recipe("selection.redundant", True)
    ('keep = 0.5', 'set = { "selection.redundant" = true }')
    """
    short = _SHORT.get(setting, setting)
    if not value or "." not in short:
        return as_path(short, *value)
    return f'set = {{ "{setting}" = {literal(value[0])} }}'


def with_fit_loss(train: Mapping[str, Any]) -> dict[str, Any]:
    """The table `train` with a fit loss instead of a logit mask, as it was called before.

    >>> with_fit_loss({"epochs": 3, "logit_mask": "batch"})
    {'epochs': 3, 'fit_loss': 'ace'}
    """
    rest = {name: value for name, value in train.items() if name != "logit_mask"}
    if "logit_mask" not in train:
        return rest
    mask = train["logit_mask"]
    meant = {"none": "ce", "batch": "ace"}.get(mask) if isinstance(mask, str) else None
    if meant is None:
        raise ConfigError(f"train.logit_mask = {mask!r} is not allowed. Allowed: 'none' or 'batch'.")
    if rest.setdefault("fit_loss", meant) != meant:
        raise ConfigError(
            f"train.logit_mask = {mask!r} is another name of train.fit_loss = {meant!r}, but train.fit_loss = "
            f"{rest['fit_loss']!r} was given too. Leave one of them out."
        )
    return rest
