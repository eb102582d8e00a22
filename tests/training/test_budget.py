"""A run under a budget spends nearly all of it and never more, and its schedule ends with it."""

from dataclasses import replace
from itertools import accumulate, repeat

import pytest

from esacl.config import Config, PartsConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.grid.estimate import executed_flops
from esacl.training.events import EpochDone, TaskDone
from esacl.training.trainer import Trainer
from tests.builders import finish, trainer
from tests.resuming import assert_resumes

METHODS = ("er", "der++", "esacl-er", "grow-er", "sparcl-der++", "icarl", "la-maml")
OTHERS = ("ewc", "packnet", "nispa", "wsn", "gpm", "lwf", "co2l")


def under(budget: str, method: str = "finetune", readout: str | None = None, **options: dict[str, object]) -> Trainer:
    """A run on the small stream: three tasks of 24 images, in batches of eight."""
    train = TrainConfig(batch_size=8, budget=budget)
    return trainer(method, options, train=train, parts=PartsConfig(readout=readout))


@pytest.mark.parametrize("method", [*METHODS, *OTHERS])
def test_a_run_spends_its_budget_and_no_more(method):
    budget = 2e8 if method == "co2l" else 6e7 if method in METHODS else 2e7  # a memory is read out, at a cost
    training = finish(under(f"{budget}flops", method))
    assert 0.95 * budget <= training.executed_flops() <= budget
    assert len(training.pace.epochs) == 3


def test_steps_are_those_of_a_plain_count():
    """Fine-tuning: all steps cost the same, and the tasks left share what is left."""
    training = under("7e6flops")
    cost = 3 * 2 * 8 * training.net.meter.dense
    left, steps = 7e6, []
    for tasks in (3, 2, 1):
        steps.append(int(left / tasks / cost))
        left -= steps[-1] * cost
    assert [round(3 * epochs) for epochs in finish(training).pace.epochs] == steps


def test_less_than_an_epoch_is_enough():
    training = finish(under("4.5e5flops"))
    assert training.pace.epochs == [2 / 3] * 3
    assert training.executed_flops() <= 4.5e5


def test_the_rate_falls_to_the_end_of_each_task_however_it_is_cut():
    rates: dict[int, list[float]] = {}
    training = under("2e7flops", "sparcl-er", readout="own")
    for event in training.run():
        if isinstance(event, EpochDone):
            rates.setdefault(event.task, []).append(event.lr)
    for found in rates.values():
        assert found == sorted(found, reverse=True)
        assert found[-1] < 0.01 * found[0]


def test_parts_are_told_the_epochs_that_the_budget_pays_for():
    training = under("2e7flops", "esacl-er")
    for event in training.run():
        if isinstance(event, TaskDone):
            told, part = training.parts.sparsity.context.epochs, training.parts.sparsity.context.epoch_part
            assert told * part == pytest.approx(training.pace.epochs[-1], rel=0.05)


def test_what_is_pulled_is_pulled_as_far_when_an_epoch_is_cut_short():
    ends = []
    for part in (1.0, 0.5):
        training = under("2e7flops", "esacl-er", sparsity={"form": "cycle"})
        sparsity = training.parts.sparsity
        sparsity.begin_task(training.net, training.stream.stages[0])
        sparsity.context = replace(sparsity.context, epochs=1, epoch_part=part)
        sparsity.begin_epoch(training.net, 0)
        factor = min(float(values.min()) for values in sparsity._shrinks.values())
        ends.append(factor ** (sparsity.steps * part))
    assert ends[0] == pytest.approx(ends[1], rel=1e-4)


@pytest.mark.parametrize("method", ["er", "grow-er", "sparcl-der++", "packnet", "icarl"])
def test_it_resumes_to_the_same_bits(method, tmp_path):
    used = finish(under("3e6flops", method, readout="own"))
    assert len(assert_resumes(lambda: under("4e6flops", method, readout="own"), used, tmp_path)) > 3


def test_seconds_are_cpu_time_of_training(monkeypatch):
    """Every look at the clock finds it a second later: a step takes one, and so does the end of a task."""
    ticks = accumulate(repeat(1.0))
    monkeypatch.setattr("esacl.training.trainer.process_time", lambda: next(ticks))
    training = finish(under("60s"))
    assert 57 <= training.seconds["cpu"] <= 60


def test_a_budget_too_small_is_refused_with_one_that_is_not():
    with pytest.raises(ConfigError, match="does not pay for 2 steps of every task") as refused:
        finish(under("1e4flops"))
    enough = str(refused.value).partition("about ")[2].partition("flops")[0].split("'")[0]
    assert finish(under(f"{enough}flops")).finished


@pytest.mark.parametrize("budget", ["2e12", "flops", "0flops", "1e99flops", "-1s", "3 hours", "1.2.3s", "nanflops"])
def test_what_is_no_budget_is_refused(budget):
    with pytest.raises(ConfigError, match="Allowed: a number above 0 and its unit"):
        Config.of(budget=budget)


def test_epochs_beside_a_budget_are_refused_but_those_of_a_preset_are_not():
    with pytest.raises(ConfigError, match="Leave one of"):
        Config.of(budget="2e12flops", epochs=3)
    config = Config.of(budget="2e12flops", preset="paper", method="esacl-er", stream="split-cifar10")
    assert "epochs" not in config.to_mapping()["train"]
    assert Config.from_mapping(config.to_mapping()) == config


def test_the_estimate_of_a_run_under_a_budget_is_its_budget():
    assert executed_flops(Config.of(method="er", budget="2e12flops")) == 2e12
