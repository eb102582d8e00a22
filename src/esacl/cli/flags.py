"""Flags of the command line: each one is a setting of a run, with the help line written beside that setting."""

from typing import Annotated, Any

from cyclopts import Group, Parameter

from esacl.config import MachineConfig, NetConfig, PartsConfig, StreamConfig, TrainConfig
from esacl.options import helps

WHAT = Group("What to run", sort_key=0)
DATA = Group("Data", sort_key=1)
TRAINING = Group("Training", sort_key=2)
METHOD = Group("Options of a method (an error where the method has no use for them)", sort_key=3)
PARTS = Group("Parts instead of the method's own (`esacl parts` lists them)", sort_key=4)
MACHINE = Group("Machine", sort_key=5)
OUTPUT = Group("Output", sort_key=6)

_SETTINGS: dict[str, Any] = {
    "stream": StreamConfig,
    "net": NetConfig,
    "train": TrainConfig,
    "machine": MachineConfig,
    "parts": PartsConfig,
}
OF_METHODS: dict[str, tuple[Any, str]] = {
    "objective.buffer": (500, "examples kept for replay"),
    "update.lr": (None, "learning rate (default: by network)"),
    "update.backbone_lr": (None, "learning rate of all but the head (default: the learning rate)"),
    "sparsity.level": (0.8, "share of the prunable weights that are zero after the last task"),
    "selection.keep": (1.0, "share of each batch that is learnt from"),
    "gradient.rho": (0.0, "ρ: length of the ascent; 0 is the plain gradient"),
}
"""Default and help of settings of parts, written here too: to import the parts is to import torch."""


def setting(path: str, group: Group, name: str | None = None) -> Parameter:
    """The flag of the setting `part.key`; that of a switch turns it on."""
    part, key = path.split(".")
    default, text = OF_METHODS[path] if path in OF_METHODS else helps(_SETTINGS[part])[key][:2]
    shown = "" if default is None else f" [default: {str(default).lower() if isinstance(default, bool) else default}]"
    negative = "" if isinstance(default, bool) else None
    return Parameter(name=name, help=f"{text}{shown}", group=group, negative=negative)


def described(text: str, group: Group, **more: Any) -> Parameter:
    """A flag that is not a setting of its own."""
    return Parameter(help=text, group=group, show_default=False, **more)  # the text names it, where it says something


Code = Annotated[
    list[str] | None,
    described(
        "code that a file names and that may be started: package.module:OBJECT or file.py:OBJECT; may be repeated",
        WHAT,
        negative="",
    ),
]
"""Consent to code that only a file names."""
