"""A small tuning, and trials whose accuracy is made up."""

import json
from pathlib import Path
from typing import Any

from esacl.grid.plan import Cell, lay_out
from esacl.grid.tuning import Tuning, read_tuning
from tests.report.fabricate_grid import finish

TUNING = """
title = "Small tuning"
about = "As few as possible."
seeds = [0, 1]
[base]
stream = "split-digits"
epochs = 1
limit_per_class = 8
buffer = 10
set = { "update.momentum" = 0.5, "stream.validation" = 0.25 }
[[rows]]
name = "er"
method = "er"
tune = { lr = [0.01, 0.03, 0.1, 0.3] }
[[rows]]
name = "ewc"
method = "ewc"
buffer = ""
tune = { lr = [0.01, 0.03], "objective.lam" = [1.0, 3.0] }
"""


def fabricate(tuning: Tuning, out: Path, accuracy: dict[str, Any]) -> list[Cell]:
    """Runs with these accuracies (%), by the label of a trial: for each seed Task-IL and Class-IL, None if it failed.

    Trials that are not named have 10 in both.
    """
    cells = lay_out(tuning.recipe, out)
    for cell in cells:
        seeds = accuracy.get(cell.point.label, ((10, 10), (10, 10)))
        pair = seeds[tuning.recipe.seeds.index(cell.seed)]
        if pair is None:
            cell.fail("training diverged: made up.")
            continue
        found: dict[str, Any] = finish(cell) | {"split": "validation"}
        found |= {name: value if value is None else value / 100 for name, value in zip(("task_il", "class_il"), pair)}
        if pair[1] is None:
            found |= {name: {**found[name], "class_il": None} for name in ("matrix", "forgetting", "bwt")}
        (cell.path / "results.json").write_text(json.dumps(found), "utf-8")
    return cells


def read(path: Path, text: str = TUNING) -> Tuning:
    """The tuning of a text, written to a file."""
    path.write_text(text, "utf-8")
    return read_tuning(path)
