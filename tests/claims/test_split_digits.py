"""What the first minute promises: on the embedded stream, replay remembers, fine-tuning does not, MTL is the bound."""

from dataclasses import replace
from statistics import fmean

import pytest

from esacl import Config, run
from esacl.config import TrainConfig

SEEDS = (0, 1, 2)
OPTIONS = {"der++": {"objective": {"buffer": 50}}, "finetune": {}, "mtl": {}}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Three seeds of each method: ten epochs a task, a buffer of 50."""
    place = tmp_path_factory.mktemp("digits")
    plain = Config(train=TrainConfig(epochs=10))
    return {
        method: [
            run(replace(plain, method=method, seed=seed, options=options), place / f"{method}-{seed}") for seed in SEEDS
        ]
        for method, options in OPTIONS.items()
    }


def mean(results, method, figure):
    return fmean(getattr(result, figure) for result in results[method])


def test_derpp_with_a_buffer_of_50_averages_at_least_95_percent_in_task_il(results):
    assert mean(results, "der++", "task_il") >= 0.95


def test_derpp_is_clearly_above_finetune(results):
    assert mean(results, "der++", "task_il") >= mean(results, "finetune", "task_il") + 0.1
    assert mean(results, "der++", "class_il") >= mean(results, "finetune", "class_il") + 0.4


def test_mtl_is_above_both(results):
    for figure in ("task_il", "class_il"):
        assert mean(results, "mtl", figure) >= max(mean(results, other, figure) for other in ("der++", "finetune"))


def test_derpp_forgets_less_than_finetune(results):
    for setting in ("task_il", "class_il"):
        forgotten = {m: fmean(r.forgetting[setting] for r in results[m]) for m in ("der++", "finetune")}
        assert forgotten["der++"] < forgotten["finetune"]
