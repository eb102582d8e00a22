"""A method as a value: the slots it fills, checked, combined and changed slot by slot."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from inspect import getdoc, isclass
from typing import Any

from esacl.config import SLOTS
from esacl.errors import ConfigError, unknown_name
from esacl.objectives.base import Objective
from esacl.objectives.finetune import Finetune
from esacl.optim.average import Average
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.optim.update import UpdateRule
from esacl.part import Part
from esacl.readouts.base import Readout
from esacl.readouts.bias import Bias
from esacl.selection.base import DataSelector, KeepAll
from esacl.sparsity.base import Dense, SparsityStrategy
from esacl.types import Columns

BASES: dict[str, type[Part]] = {
    "objective": Objective,
    "gradient": GradientRule,
    "update": UpdateRule,
    "constraint": StepConstraint,
    "sparsity": SparsityStrategy,
    "selection": DataSelector,
    "average": Average,
    "readout": Readout,
}
"""The class that every part of a slot is derived from."""

DEFAULT_PARTS: dict[str, type[Part]] = {**BASES, "objective": Finetune, "sparsity": Dense, "selection": KeepAll}
"""What fills a slot that a method leaves open."""

WIDEST: tuple[Columns, ...] = ("all", "seen", "task")
"""Rules of training columns, the one that leaves no column out first."""


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the comparison: the slots it fills, in its own words."""

    about: str
    parts: Mapping[str, type[Part]] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)  # option → slot that is left open where it is false
    without_head: Mapping[str, type[Part]] = field(default_factory=dict)  # instead, where the objective trains no head
    with_memory: type[Readout] = Bias  # how it answers with a memory, unless a readout is asked for

    def __post_init__(self) -> None:
        for slot, part in self.parts.items():
            if slot not in SLOTS:
                raise unknown_name("slot", slot, SLOTS)
            if not isclass(part) or not issubclass(part, BASES[slot]):
                raise ConfigError(
                    f"{_called(part)} cannot fill the {slot} slot, as it is no {BASES[slot].__name__}. Derive it from "
                    f"esacl.{BASES[slot].__name__}, which has what the slot asks for."
                )

    def part(self, slot: str) -> type[Part]:
        """What fills a slot."""
        return self.parts.get(slot, DEFAULT_PARTS[slot])

    @property
    def joint(self) -> bool:
        """Whether it trains all tasks at once."""
        return bool(getattr(self.part("objective"), "joint", False))

    @property
    def trains(self) -> bool:
        """Whether it moves weights at all."""
        return bool(getattr(self.part("objective"), "trains", True))

    @property
    def remembers(self) -> bool:
        """Whether examples of earlier classes are at hand when a task ends."""
        objective = self.part("objective")
        return self.joint or (issubclass(objective, Objective) and objective.remembers())

    @property
    def needs_task_id(self) -> bool:
        """Whether it can answer only when told the task, with its default options."""
        return self.needs_task(self.default_options())

    def default_options(self) -> dict[str, dict[str, Any]]:
        """Options of every slot as they are where none is given."""
        return {slot: asdict(self.part(slot).Options()) for slot in SLOTS}

    def needs_task(self, options: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether it can answer only when told the task."""
        return any(self.part(slot).needs_task(options[slot]) for slot in SLOTS)

    def columns(self, options: Mapping[str, Mapping[str, Any]]) -> Columns | None:
        """Training columns of its authors' code: the widest rule that a part has; None where none has one."""
        rules = {self.part(slot).training_columns(options[slot]) for slot in SLOTS}
        return next((rule for rule in WIDEST if rule in rules), None)

    @property
    def needs_validation(self) -> bool:
        """Whether it watches validation examples while it trains."""
        return bool(getattr(self.part("sparsity"), "needs_validation", False))

    @property
    def name(self) -> str:
        """What a run calls a method that was given as an object: its parts, in angle brackets."""
        return f"<{' + '.join(self.parts[slot].__name__ for slot in SLOTS if slot in self.parts) or 'Finetune'}>"

    def switched(self, options: Mapping[str, Mapping[str, Any]]) -> "Method":
        """The method without the parts that options switch off."""
        off = {slot for path, slot in self.switches.items() if _setting(options, path) is False}
        return replace(self, parts={slot: part for slot, part in self.parts.items() if slot not in off})

    def replaced(self, parts: Mapping[str, type[Part]]) -> "Method":
        """The method with other parts in some slots; options that switched the old ones off have no use any more."""
        switches = {path: slot for path, slot in self.switches.items() if slot not in parts}
        return replace(self, parts={**self.parts, **parts}, switches=switches)

    def with_default_readout(self) -> "Method":
        """The method as it answers unless a readout is asked for: with a memory, corrected for bias or in two steps.

        Where its authors have a readout, that stays; so does the head where the other does not fit.
        """
        parts = {slot: self.part(slot) for slot in SLOTS}
        plain = "readout" not in self.parts and "constraint" not in self.parts
        if not plain or self.joint or not self.remembers or self.with_memory.misfit(parts):
            return self
        return replace(self, parts={**self.parts, "readout": self.with_memory})

    def options(self, slot: str) -> list[str]:
        """Names of a slot's options."""
        return [f.name for f in fields(self.part(slot).Options)]


def combine(about: str, *rows: Method) -> Method:
    """One method from several; each slot may be claimed once."""
    parts: dict[str, type[Part]] = {}
    switches: dict[str, str] = {}
    without_head: dict[str, type[Part]] = {}
    with_memory: type[Readout] = Bias
    for row in rows:
        for slot, part in row.parts.items():
            if slot in parts:
                raise ConfigError(
                    f"{parts[slot].__name__} and {part.__name__} both claim the {slot} slot, which only one can fill. "
                    f"Combine methods that fill different slots, or leave one of the two out."
                )
            parts[slot] = part
        switches |= row.switches
        without_head |= row.without_head
        with_memory = with_memory if row.with_memory is Bias else row.with_memory
    if not getattr(parts.get("objective"), "trains_head", True):
        parts |= without_head
    return Method(about, parts, switches, without_head, with_memory)


def about_part(part: type[Part]) -> str:
    """The first sentence that a part says of itself."""
    return (getdoc(part) or "").partition("\n")[0].rstrip(".") or part.__name__


def _called(part: Any) -> str:
    return part.__name__ if isclass(part) else repr(part)


def _setting(options: Mapping[str, Mapping[str, Any]], path: str) -> Any:
    """The value at `slot.name`, if it was given."""
    slot, _, name = path.partition(".")
    return options.get(slot, {}).get(name)
