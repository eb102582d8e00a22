"""The slots of a step, and the settings that choose a part for one of them."""

from dataclasses import asdict, dataclass

from esacl.options import option

SLOTS = ("objective", "gradient", "update", "constraint", "sparsity", "selection", "average", "readout")
"""The replaceable parts of a step; each may have a table of options of its own."""

CHOSEN = ("gradient", "update", "constraint", "selection", "average", "readout")
"""Slots whose part may be chosen by a setting of its own; the others are what the name of a method says."""


OWN = "own"
"""The readout of a method's authors, by this name for every method: the head, where they have no other."""


@dataclass(frozen=True, slots=True)
class PartsConfig:
    """Parts that are chosen for single slots, whatever the method would put there."""

    gradient: str | None = option(None, "how a gradient is formed, such as sharpness: see `esacl parts gradient`")
    update: str | None = option(None, "how the weights move, such as frank-wolfe: see `esacl parts update`")
    constraint: str | None = option(None, "what a step may not change, such as gpm: see `esacl parts constraint`")
    selection: str | None = option(None, "which examples are trained on: see `esacl parts selection`")
    average: str | None = option(None, "which weights answer: last, or ema: see `esacl parts average`")
    readout: str | None = option(
        None,
        "how the network answers, such as nearest-mean: see `esacl parts readout`; own: as its authors have it",
    )

    def chosen(self) -> dict[str, str]:
        """Names of the chosen parts by slot."""
        return {slot: name for slot, name in asdict(self).items() if name not in (None, OWN)}
