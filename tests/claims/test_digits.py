"""What is promised of the embedded stream, at ten epochs a task and with a buffer of 50, as means over three seeds.

Replay remembers, fine-tuning does not, and learning everything at once is the bound. EsaCL prunes in one shot for
nothing, and its polytope is why.
"""

from functools import cache
from statistics import fmean
from tempfile import TemporaryDirectory

import pytest

from esacl import Config, run

FULL = {"method": "esacl-der++", "buffer": 50, "rho": 0.05}
ROWS = {
    "finetune": {"method": "finetune"},
    "mtl": {"method": "mtl"},
    "der++": {"method": "der++", "buffer": 50},
    "esacl at 0.8": {**FULL, "sparsity": 0.8, "unpruned": True},
    "esacl at 0.9": {**FULL, "sparsity": 0.9},
    "esacl at 0.9 without the polytope": {**FULL, "sparsity": 0.9},
}
OPTIONS = {"esacl at 0.9 without the polytope": {"sparsity": {"polytope": False}}}


@cache
def results(name):
    """Three seeds of a row."""
    with TemporaryDirectory() as place:
        plain = [Config.of(epochs=10, seed=seed, readout="own", **ROWS[name]) for seed in (0, 1, 2)]
        return [run(config.with_options(**OPTIONS.get(name, {})), f"{place}/{config.seed}") for config in plain]


def mean(name, figure):
    return fmean(getattr(result, figure) for result in results(name))


def test_derpp_averages_at_least_95_percent_in_task_il():
    assert mean("der++", "task_il") >= 0.95


def test_derpp_is_clearly_above_finetune():
    assert mean("der++", "task_il") >= mean("finetune", "task_il") + 0.1
    assert mean("der++", "class_il") >= mean("finetune", "class_il") + 0.4


def test_mtl_is_above_both():
    for figure in ("task_il", "class_il"):
        assert mean("mtl", figure) >= max(mean(other, figure) for other in ("der++", "finetune"))


def test_derpp_forgets_less_than_finetune():
    for setting in ("task_il", "class_il"):
        forgotten = {row: fmean(result.forgetting[setting] for result in results(row)) for row in ("der++", "finetune")}
        assert forgotten["der++"] < forgotten["finetune"]


def test_esacl_at_density_a_fifth_is_within_one_point_of_dense_derpp():
    assert mean("esacl at 0.8", "class_il") >= mean("der++", "class_il") - 0.01
    assert all(result.density == pytest.approx(0.2, abs=1e-4) for result in results("esacl at 0.8"))


def test_at_density_a_tenth_the_polytope_is_worth_20_points():
    without = mean("esacl at 0.9 without the polytope", "class_il")
    assert mean("esacl at 0.9", "class_il") >= without + 0.2


def test_one_shot_pruning_costs_next_to_nothing():
    """On average over tasks and seeds, less than a point in either setting."""
    for setting in ("task_il", "class_il"):
        drops = [fmean(result.pruning_drop[setting]) for result in results("esacl at 0.8")]
        assert fmean(drops) < 0.01
