"""Settings by their short names: the flags of the command line and the keywords of `Config.of`."""

from collections.abc import Mapping
from typing import Any

from esacl.errors import ConfigError, unknown_name
from esacl.slots import CHOSEN
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
    "epochs": "train.epochs",
    "batch_size": "train.batch_size",
    "columns": "train.columns",
    "logit_mask": "train.logit_mask",
    "split": "train.split",
    "scenario": "train.scenario",
    "unpruned": "train.unpruned",
    "backbone": "net.backbone",
    "width": "net.width",
    "device": "machine.device",
    "precision": "machine.precision",
    "threads": "machine.threads",
    "processes": "machine.processes",
    "lr": "update.lr",
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
