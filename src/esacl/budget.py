"""Budgets: what a run may spend, instead of how many epochs it trains."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from esacl.errors import ConfigError

Unit = Literal["flops", "s", "MB"]
UNITS: dict[str, Unit] = {"flops": "flops", "s": "s", "mb": "MB"}
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """An amount of executed training FLOPs, of CPU seconds of training, or of megabytes that are kept."""

    amount: float
    unit: Unit


def parse_budget(text: str) -> Budget:
    """A budget as people write it.

    >>> parse_budget("2e12flops"), parse_budget("300 s"), parse_budget("20MB")
    (Budget(amount=2000000000000.0, unit='flops'), Budget(amount=300.0, unit='s'), Budget(amount=20.0, unit='MB'))
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z]+)\s*", text.lower())
    if found is not None and found[2] in UNITS and found[1].count(".") < 2 and found[1] != ".":
        amount = float(found[1])
        if 0 < amount <= 1e30 and isfinite(amount):
            return Budget(amount, UNITS[found[2]])
    raise ConfigError(
        "{given} is not allowed.",
        "train.budget",
        text,
        allowed="a number above 0 and its unit: 2e12flops (executed in training), 300s (CPU time of training) or 20MB "
        "(network and memory)",
    )


def decides_epochs(budget: Any) -> bool:
    """Whether a budget, as it is written, is spent by training, so that it says how long a run trains."""
    return isinstance(budget, str) and parse_budget(budget).unit in ("flops", "s")


def with_budget(train: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The table `train` without the epochs of a preset, where a budget decides how many there are.

    `given` is the table without the preset: epochs in there contradict the budget.
    """
    if not decides_epochs(train.get("budget")):
        return train
    if "epochs" in given:
        raise ConfigError(
            "{given} says how long to train, but {epochs} epochs were given too.",
            "train.budget",
            train["budget"],
            remedy="Leave one of {train.budget} and {train.epochs} out.",
            epochs=given["epochs"],
        )
    return {name: value for name, value in train.items() if name != "epochs"}
