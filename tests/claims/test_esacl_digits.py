"""What EsaCL promises on the embedded stream: pruning in one shot is free, and the polytope is why."""

from statistics import fmean

import pytest

from esacl import Config, run

SEEDS = (0, 1, 2)
FULL = {"rho": 0.05}
ROWS = {
    "dense": {"method": "der++"},
    "full at 0.8": {"sparsity": 0.8, **FULL},
    "full at 0.9": {"sparsity": 0.9, **FULL},
    "without the polytope at 0.9": {"sparsity": 0.9, **FULL},
}
OFF = {"without the polytope at 0.9": {"sparsity": {"polytope": False}}}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    place = tmp_path_factory.mktemp("esacl")

    def one(name, seed):
        common = {"method": "esacl-der++", "epochs": 10, "buffer": 50, "seed": seed}
        config = Config.of(**{**common, **ROWS[name]})
        return run(config.with_options(**OFF.get(name, {})), place / f"{name}-{seed}")

    return {name: [one(name, seed) for seed in SEEDS] for name in ROWS}


def mean(results, name):
    return fmean(result.class_il for result in results[name])


def test_at_density_a_fifth_it_is_within_one_point_of_dense_derpp(results):
    assert mean(results, "full at 0.8") >= mean(results, "dense") - 0.01
    assert all(result.density == pytest.approx(0.2, abs=1e-4) for result in results["full at 0.8"])


def test_at_density_a_tenth_the_polytope_is_worth_20_points(results):
    assert mean(results, "full at 0.9") >= mean(results, "without the polytope at 0.9") + 0.2


def test_one_shot_pruning_costs_next_to_nothing(results):
    """On average over tasks and seeds, less than a point in either setting."""
    for setting in ("task_il", "class_il"):
        drops = [fmean(result.pruning_drop[setting]) for result in results["full at 0.8"]]
        assert fmean(drops) < 0.01
