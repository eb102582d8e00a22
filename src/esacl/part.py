"""What every replaceable part of a step has in common: options, context, and state that can be saved."""

from collections.abc import Mapping
from typing import Any, ClassVar

from esacl.nets.network import Network
from esacl.nets.traits import NetTraits
from esacl.nets.widths import Places
from esacl.options import NoOptions
from esacl.problem import Problem
from esacl.types import Columns, Context, Params, State


class Part:
    """A part without settings or state. Whatever `begin_task` and later calls change belongs into the state."""

    Options: ClassVar[type[Any]] = NoOptions

    fixed_width: ClassVar[bool] = False  # whether it cannot go on with a network that gets narrower
    untold_columns: ClassVar[Columns | None] = None  # training columns for use without task ids, if others are better

    def __init__(self, options: Any, context: Context) -> None:
        self.options = options
        self.context = context

    @classmethod
    def defaults(cls, net: NetTraits, options: Mapping[str, Any]) -> dict[str, Any]:
        """Values of options that were left open (None) and whose right value depends on the network or on others."""
        return {}

    @classmethod
    def beside(cls, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Values of options that were left open and whose right value depends on the options of other slots.

        Beside the slots there is `train`, with the training columns that were asked for, or None.
        """
        return {}

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """What is wrong with the options of all slots together, and what to do; asked before anything trains.

        A `Problem` names settings as the user gave them: by flags, keywords or keys; text is shown as it is.
        Beside the slots there is `train`, with the training columns of the run.
        """
        return None

    @classmethod
    def misfit(cls, parts: "Mapping[str, type[Part]]") -> Problem | str | None:
        """Why it cannot work beside the parts of the other slots, and what to do; asked before anything trains."""
        return None

    @classmethod
    def switched_off(cls, name: str, options: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Which option of its own leaves another slot without its part, as NAME:VALUE; what to give instead."""
        return f"{name}:false", [f"{name}:true"]

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """Training columns of its authors' code, given its own options; None where the part leaves that to others."""
        return None

    @classmethod
    def needs_task(cls, options: Mapping[str, Any]) -> bool:
        """Whether, with these options of its own, it can answer only when told the task."""
        return False

    def attach(self, net: Network) -> None:
        """Meet the network, before anything is trained or restored."""

    def narrow(self, places: Mapping[str, Places]) -> None:
        """Channels of the network went for good: of each parameter and statistic, by name, these places stay."""

    def extra_parameters(self) -> Params:
        """Parameters of the part's own that the optimiser trains: scores, projection heads, learning rates."""
        return {}

    def state_dict(self) -> State:
        """Everything that later steps depend on."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
