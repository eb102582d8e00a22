"""The settings that a tuning chose, as the recipe of a grid."""

from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w

from esacl.config import SHORT_NAMES
from esacl.grid.choice import Choice
from esacl.grid.points import DEFAULTS
from esacl.grid.tuning import SPLIT, Tuning

_SHORT = {path: name for name, path in SHORT_NAMES.items()}


def chosen_recipe(tuning: Tuning, choices: Sequence[Choice], about: str) -> str:
    """A recipe that trains every row with its best settings and judges it on the test split."""
    base = {path: value for path, value in tuning.base.items() if value != ""} | {SPLIT: "test"}
    rows = [
        {"name": choice.row.name, **_table(_beyond(base, {**choice.best.point.settings, SPLIT: "test"}))}
        for choice in choices
        if choice.best is not None
    ]
    document = {"title": f"{tuning.recipe.title}, as chosen", "about": about, "seeds": tuning.recipe.seeds}
    return tomli_w.dumps({**document, "base": _table(base), "rows": rows})


def _beyond(base: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a row must say so that, with the base, it has these settings: what differs, and what it goes without."""
    known = {**DEFAULTS, **base}
    removed = {path: "" for path in known if path not in settings}
    return {path: value for path, value in settings.items() if known.get(path) != value} | removed


def _table(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a recipe has them: by their short names, the others in `set`."""
    short = {_SHORT[path]: value for path, value in settings.items() if path in _SHORT}
    others = {path: value for path, value in settings.items() if path not in _SHORT}
    return {**short, "set": others} if others else short
