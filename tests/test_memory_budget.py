"""A budget of megabytes chooses the largest buffer that fits with the network."""

import pytest

import esacl
from esacl.config import Config
from esacl.errors import ConfigError
from esacl.runner import start
from tests.builders import stream

BRIEF = {"epochs": 1, "backbone": "mlp", "width": 16, "batch_size": 8}


def buffer_of(budget, method, folder, **settings):
    with start(Config.of(method=method, budget=budget, **BRIEF, **settings), folder, stream()) as run:
        return run.config.options["objective"]["buffer"]


@pytest.mark.parametrize("method", ["er", "der++", "icarl", "esacl-der++", "grow-er"])
def test_what_is_kept_fits_and_one_more_image_would_not(method, tmp_path):
    config = Config.of(method=method, budget="0.04MB", **BRIEF)
    results = esacl.run(config, tmp_path / "run", stream())
    buffer = buffer_of("0.04MB", method, tmp_path / "again")
    image = 64 + 8 + (24 if "der++" in method else 0)
    assert results.budget.spent <= 40_000
    if buffer < 72:  # what there is to remember
        assert results.budget.spent > 40_000 - 2 * image


def test_a_larger_budget_keeps_more_but_never_more_than_there_is(tmp_path):
    sizes = [buffer_of(budget, "er", tmp_path / budget) for budget in ("0.017MB", "0.019MB", "5MB")]
    assert sizes[0] < sizes[1] < sizes[2] == 72


def test_a_budget_that_is_too_small_is_refused_with_the_least(tmp_path):
    with pytest.raises(ConfigError, match=r"keeps at least 0\.017 MB here") as refused:
        buffer_of("0.001MB", "er", tmp_path / "run")
    assert "Use train.budget of 0.017MB or more" in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_buffer_that_was_given_must_fit(tmp_path):
    assert buffer_of("5MB", "er", tmp_path / "some", buffer=10) == 10
    with pytest.raises(ConfigError, match="is too small"):
        buffer_of("0.019MB", "er", tmp_path / "many", buffer=5000)


def test_a_method_without_a_memory_must_fit(tmp_path):
    results = esacl.run(Config.of(method="finetune", budget="5MB", **BRIEF), tmp_path / "run", stream())
    assert 0 < results.budget.spent < 5e6
    assert results.budget.epochs == []
    with pytest.raises(ConfigError, match="is too small"):
        esacl.run(Config.of(method="finetune", budget="0.001MB", **BRIEF), tmp_path / "small", stream())


def test_it_is_chosen_once(tmp_path):
    """A resumed run has the buffer that it began with."""
    with start(Config.of(method="er", budget="0.019MB", **BRIEF), tmp_path / "run", stream()) as run:
        next(run.events())
        buffer = run.config.options["objective"]["buffer"]
    esacl.resume(tmp_path / "run", stream())
    assert esacl.artifacts.RunDirectory(tmp_path / "run").config().options["objective"]["buffer"] == buffer
