"""Folders of grids whose runs are made up: what `esacl grid` leaves behind, without the training."""

import json
from pathlib import Path

import numpy as np

from esacl.files import write_atomic
from esacl.grid.plan import Cell, lay_out
from esacl.grid.recipe import read_recipe
from esacl.grid.tables import write_recipe
from esacl.methods import METHODS, resolve
from tests import builders
from tests.report.fabricate import results

EVERY_METHOD = f"""
title = "Every method"
about = "Made up."
seeds = [0, 1, 2]
methods = {json.dumps(list(METHODS))}
streams = ["split-cifar100"]
[base]
epochs = 1
"""

MOVED = """
title = "What is moved"
seeds = [0, 1]
[base]
stream = "split-digits"
method = "esacl-der++"
rho = 0.05
[[rows]]
name = "whole"
axes = { sparsity = [0.7, 0.8, 0.9] }
[[rows]]
name = "flat"
rho = 0.0
[[rows]]
name = "sharper"
rho = 0.2
[[rows]]
name = "less data"
keep = 0.4
set = { "selection.rule" = "loss", "selection.ranking" = "pass" }
[[rows]]
name = "no ascent on few"
keep = 0.4
set = { "selection.rule" = "loss", "selection.ranking" = "pass", "selection.support" = false }
[[rows]]
name = "all in the descent"
keep = 0.4
set = { "selection.rule" = "loss", "selection.ranking" = "pass", "selection.redundant" = false }
[[rows]]
name = "dull"
rho = ""
set = { "sparsity.sharpness" = false }
[[rows]]
name = "spherical"
set = { "sparsity.polytope" = false }
[[rows]]
name = "rival"
method = "sparcl-er"
rho = ""
axes = { "selection.removed" = [0.0, 0.3, 0.6] }
"""


def finish(cell: Cell) -> dict[str, object]:
    """Make up the end of a run; returns its results."""
    with (directory := cell.directory).locked():
        cell.claim(directory)
    config = resolve(cell.config(), builders.stream(tasks=4))
    write_atomic(cell.path / "config.toml", config.to_toml())
    level = config.options.get("sparsity", {}).get("level") or 0.0
    sort = f"{config.method}{cell.point.label}"
    rng = np.random.default_rng([cell.seed, sum(map(ord, sort))])
    found = results(config.method, config.stream.name, cell.seed, tasks=4)
    found |= {"epochs": config.train.epochs, "split": config.train.split}
    if METHODS[config.method].needs_task_id:
        found |= {"class_il": None, "matrix": found["matrix"] | {"class_il": None}}
        found["forgetting"] = found["forgetting"] | {"class_il": None}
    lift = float(np.random.default_rng(sum(map(ord, sort))).uniform(-0.25, 0.05)) + float(rng.normal(0, 0.01))
    for key in ("task_il", "class_il"):
        if found[key] is not None:
            found[key] = min(1.0, found[key] + (lift / 3 if key == "task_il" else lift))
    executed = float(rng.uniform(1e12, 6e12))
    found |= {"sparsity": level, "capacity": 1 - level, "flops": found["flops"] | {"executed": executed}}
    (cell.path / "results.json").write_text(json.dumps(found), "utf-8")
    return found


def write_grid(folder: Path, text: str, skip: int = 0) -> list[Cell]:
    """The folder of a grid with all runs but the last `skip` finished."""
    path = folder.with_suffix(".toml")
    path.write_text(text, "utf-8")
    recipe = read_recipe(path)
    write_recipe(recipe, recipe.seeds, folder)
    cells = lay_out(recipe, folder)
    for cell in cells[: len(cells) - skip]:
        finish(cell)
    return cells
