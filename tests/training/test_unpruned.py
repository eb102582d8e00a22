"""What pruning costs is measured where it is asked for, and measuring it changes nothing else."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import esacl
from esacl.config import NetConfig, TrainConfig
from esacl.report import load_run, write_report
from esacl.runner.results import figures
from esacl.training.events import Pruned, TaskDone
from esacl.training.trainer import Trainer
from tests.builders import config, finish, stream, trainer

PLAIN = TrainConfig(epochs=2, batch_size=8)
ASKING = TrainConfig(epochs=2, batch_size=8, unpruned=True)


def built(method: str, train: TrainConfig, backbone: str = "mlp") -> Trainer:
    """A short run with little memory."""
    options = {"sparsity": {"recalibrate": "memory"}, "objective": {"buffer": 20}}
    return trainer(method, options, net=NetConfig(backbone, 16 if backbone == "mlp" else 4), train=train)


def leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Everything in a nested state, by its path."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else None
    if pairs is None:
        return {name: value}
    return {path: leaf for key, each in pairs for path, leaf in leaves(each, f"{name}/{key}").items()}


def lasting(training: Trainer) -> dict[str, Any]:
    """The state of a run, but for the measurement, what it was charged with and what a clock said."""
    aside = ("/unpruned", "/seconds", "/net/meter/executed_macs/evaluate", "/net/meter/sparse_macs/evaluate")
    return {path: leaf for path, leaf in leaves(training.state_dict()).items() if not path.startswith(aside)}


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
@pytest.mark.parametrize("method", ["esacl-er", "esacl-co2l", "sparcl-co2l"])
def test_measuring_what_pruning_costs_leaves_every_bit_of_a_run(method: str, backbone: str) -> None:
    plain, asking = (finish(built(method, train, backbone)) for train in (PLAIN, ASKING))
    assert (len(plain.unpruned), len(asking.unpruned)) == (0, 3)
    one, other = lasting(plain), lasting(asking)
    assert one.keys() == other.keys()
    assert any("/model/" in path for path in one)
    for path, value in one.items():
        equal = torch.equal(value, other[path]) if isinstance(value, Tensor) else value == other[path]
        assert equal, path


def test_nothing_is_evaluated_before_pruning_unless_asked_for() -> None:
    plain, asking = (
        [event.before for event in built("esacl-er", train).run() if isinstance(event, Pruned)]
        for train in (PLAIN, ASKING)
    )
    assert plain == [None] * 3
    assert all(before is not None and len(before.task_il) == 3 for before in asking)
    costs = [finish(built("esacl-co2l", train)).net.meter.executed_macs["evaluate"] for train in (PLAIN, ASKING)]
    assert costs[0] < 0.6 * costs[1], "without it, the untrained network and one after each task"


def test_results_and_report_tell_what_pruning_costs_where_measured(tmp_path: Path) -> None:
    found = {}
    for train in (PLAIN, ASKING):
        out = tmp_path / str(train.unpruned)
        settings = config("esacl-er", {"objective": {"buffer": 20}}, train=train)
        results = esacl.run(settings, out, stream=stream())
        write_report([out], out / "page.html")
        found[train] = results, load_run(out), (out / "page.html").read_text()
    results, record, page = found[PLAIN]
    assert results.pruning_drop == {}
    assert record.pruning_drop.task_il is record.pruning_drop.class_il is None
    assert "by each pruning" not in page
    measured, record, page = found[ASKING]
    assert [len(drops) for drops in measured.pruning_drop.values()] == [3, 3]
    assert record.pruning_drop.task_il == pytest.approx(sum(measured.pruning_drop["task_il"]) / 3)
    assert "Task-IL by each pruning" in page
    assert results.matrix == measured.matrix
    assert results.flops == measured.flops


def test_a_run_that_was_measured_for_a_part_tells_no_drop() -> None:
    """So is one that another version began, which always measured."""
    begun, going_on = built("esacl-er", ASKING), built("esacl-er", PLAIN)
    next(event for event in begun.run() if isinstance(event, TaskDone))
    going_on.load_state_dict(begun.state_dict())
    assert len(going_on.unpruned) == 1
    told = [event.before for event in going_on.run() if isinstance(event, Pruned)]
    assert told == [None, None]
    settings = config("esacl-er", train=PLAIN)
    assert figures(going_on, settings, 1.0, 0).pruning_drop == {}
    assert figures(finish(built("esacl-er", ASKING)), settings, 1.0, 0).pruning_drop.keys() == {"task_il", "class_il"}
