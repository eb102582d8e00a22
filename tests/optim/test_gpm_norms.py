"""Normalisation of each task's own in GPM: kept to the bit, resumed, saved, and refused where another part has it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import esacl
from esacl.config import Config, NetConfig, TrainConfig
from esacl.deploy import open_model
from esacl.errors import ConfigError
from esacl.methods import METHODS, check_settings, combine, resolve
from esacl.methods.catalogue import ESACL, GPM
from esacl.optim.gpm import Gpm, GpmOptions
from esacl.runner import reopen
from esacl.training.events import TaskDone
from esacl.training.trainer import Trainer
from tests.builders import config, context, finish, network, parts, stream, trainer
from tests.resuming import assert_resumes

STREAM = stream()
NORMS = pytest.mark.parametrize("norms", ["first", "statistics", "own"])
KEPT = pytest.mark.parametrize("norms", ["statistics", "own"])
SCALE, MEAN = "backbone.layers.1.weight", "backbone.layers.1.running_mean"


def gpm(norms: str, method: str = "gpm", seed: int = 0) -> Trainer:
    settings = {"net": NetConfig("cnn", 8), "train": TrainConfig(epochs=2, batch_size=8)}
    return trainer(method, {"constraint": {"norms": norms}}, seed=seed, of=STREAM, **settings)


def normalisation(training: Trainer, task: int) -> dict[str, Tensor]:
    """What a task is normalised by: scales, biases and statistics of BatchNorm."""
    effective = training.net.effective_state(task)
    names = [*training.net.partition.other, *dict(training.net.model.named_buffers())]
    return {name: effective[name].clone() for name in names}


@NORMS
def test_a_run_resumes_bit_for_bit_with_any_normalisation(norms: str, tmp_path: Path) -> None:
    assert assert_resumes(lambda: gpm(norms), finish(gpm(norms, seed=7)), tmp_path)


@pytest.mark.parametrize(
    ("method", "parts"),
    [("gpm", {"readout": "nearest-mean"}), ("icarl", {}), ("co2l", {})],
    ids=lambda value: str(value),
)
@KEPT
def test_a_readout_for_all_tasks_is_refused_beside_norms_of_each(
    norms: str, method: str, parts: dict[str, str]
) -> None:
    config = Config.of(method=method, **{"constraint": "gpm", **parts}).with_options(constraint={"norms": norms})
    with pytest.raises(ConfigError, match=f"is fitted with the normalisation of the last task, but .* = '{norms}'"):
        check_settings(config)
    check_settings(config.with_options(constraint={"norms": "first"}))


@NORMS
def test_later_tasks_leave_the_normalisation_of_earlier_ones_bit_for_bit(norms: str) -> None:
    training = gpm(norms)
    ends = [normalisation(training, event.task) for event in training.run() if isinstance(event, TaskDone)]
    assert len(ends) == 3
    for task, then in enumerate(ends):
        now = normalisation(training, task)
        assert all(torch.equal(now[name], value) for name, value in then.items())


@pytest.mark.parametrize(("norms", "moves"), [("first", set()), ("statistics", {MEAN}), ("own", {MEAN, SCALE})])
def test_a_task_has_of_its_own_what_the_option_says(norms: str, moves: set[str]) -> None:
    training = finish(gpm(norms))
    first, last = normalisation(training, 0), normalisation(training, 2)
    assert {name for name in (SCALE, MEAN) if not torch.equal(first[name], last[name])} == moves


@KEPT
def test_training_calls_for_an_earlier_task_leave_its_statistics(norms: str) -> None:
    training = finish(gpm(norms))
    before = normalisation(training, 0)
    training.net.train_mode()
    training.net(STREAM.inputs.plain(STREAM.tasks[2].train.x), 0)
    assert all(torch.equal(value, before[name]) for name, value in normalisation(training, 0).items())


@KEPT
def test_a_saved_model_answers_for_every_task_as_the_run_did(norms: str, tmp_path: Path) -> None:
    settings = config(
        "gpm", {"constraint": {"norms": norms}}, net=NetConfig("cnn", 8), train=TrainConfig(epochs=1, batch_size=8)
    )
    assert esacl.run(settings, tmp_path / "run", stream=STREAM).class_il is None
    saved = open_model(tmp_path / "run")
    assert saved.needs_task
    with reopen(tmp_path / "run", STREAM) as run, run.trainer.net.inference():
        for task in STREAM.tasks:
            logits = run.trainer.net(STREAM.inputs.plain(task.test.x), task.index).logits[:, list(task.classes)]
            told = saved.for_task(task.index + 1).answering()
            torch.testing.assert_close(told(task.test.x / 255)[0], logits.softmax(1), atol=1e-5, rtol=0)


@KEPT
def test_class_il_is_refused_where_each_task_is_normalised_apart(norms: str) -> None:
    train = TrainConfig(epochs=1, batch_size=8, scenario="class-il")
    with pytest.raises(ConfigError, match="there is no Class-IL"):
        resolve(config("gpm", {"constraint": {"norms": norms}}, train=train), STREAM)


@KEPT
@pytest.mark.parametrize("isolated", ["packnet", "wsn"])
def test_a_strategy_that_keeps_normalisation_itself_is_refused(
    norms: str, isolated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "both", combine("both", GPM, METHODS[isolated]))
    with pytest.raises(ConfigError, match=rf"constraint\.norms = '{norms}'.*Use constraint\.norms = 'first'"):
        resolve(config("both", {"constraint": {"norms": norms}}), STREAM)


@KEPT
def test_earlier_tasks_keep_their_normalisation_where_weights_are_pruned(
    norms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "both", combine("both", GPM, ESACL))
    training = gpm(norms, "both")
    ends = [normalisation(training, event.task) for event in training.run() if isinstance(event, TaskDone)]
    for task, then in enumerate(ends):
        now = normalisation(training, task)
        assert all(torch.equal(now[name], value) for name, value in then.items())
    assert all(row.class_il is None for row in training.rows)


@KEPT
def test_a_view_of_weights_and_one_of_normalisation_are_both_seen(norms: Any) -> None:
    net, constraint = network("cnn", 8), Gpm(GpmOptions(norms=norms), context(STREAM))
    composed = parts("wsn", {"sparsity": {"norms": "first"}}, context(STREAM), {"constraint": constraint})
    composed.attach(net)
    composed.sparsity.begin_task(net, STREAM.tasks[0])
    composed.sparsity.end_task(net, STREAM.tasks[0], None)
    composed.constraint.end_task(net, STREAM.tasks[0])
    kept = net.model.get_buffer(MEAN).clone()
    net.model.get_buffer(MEAN).add_(1.0)
    seen = net.effective_state(0)
    assert torch.equal(seen[MEAN], kept)
    assert (seen["backbone.layers.4.weight"] == 0).float().mean() == pytest.approx(0.5, abs=0.01)
