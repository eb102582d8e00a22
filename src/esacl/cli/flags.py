"""Flags of the command line: each one is a setting of a run, with the help line written beside that setting."""

from typing import Annotated, Any

from cyclopts import Group, Parameter

from esacl.config import MachineConfig, NetConfig, PartsConfig, StreamConfig, TrainConfig
from esacl.objectives.er import ErOptions
from esacl.optim.sharpness import SharpnessOptions
from esacl.optim.update import SgdOptions
from esacl.options import helps
from esacl.selection.ranked import RankedOptions
from esacl.sparsity.esacl import EsaclOptions

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
    "objective": ErOptions,
    "update": SgdOptions,
    "sparsity": EsaclOptions,
    "selection": RankedOptions,
    "gradient": SharpnessOptions,
    "parts": PartsConfig,
}


def setting(path: str, group: Group, name: str | None = None) -> Parameter:
    """The flag of the setting `part.key`; that of a switch turns it on."""
    part, key = path.split(".")
    default, text, _ = helps(_SETTINGS[part])[key]
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
