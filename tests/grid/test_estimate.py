"""The cost of a grid before it starts: near to what its runs then execute, and told row by row."""

from dataclasses import replace
from itertools import accumulate, chain, repeat

import pytest
import torch

import esacl
from esacl.cli import main
from esacl.config import Config
from esacl.grid.estimate import executed_flops, step_speed
from esacl.nets import build_model
from esacl.nets.macs import macs_per_example


@pytest.mark.parametrize("method", ["finetune", "er", "ewc", "esacl-er", "packnet", "mtl"])
def test_an_estimate_is_near_to_what_a_run_executes(method, tmp_path):
    config = Config.of(method=method, epochs=2, limit_per_class=60)
    assert executed_flops(config) == pytest.approx(esacl.run(config, tmp_path / "run").flops.executed, rel=0.1)


@pytest.mark.parametrize("method", ["sparcl", "sparcl-er"])
def test_an_estimate_foresees_removed_data_and_looks_at_the_memory(method, tmp_path):
    config = Config.of(method=method, epochs=5, limit_per_class=60, readout=None if method == "sparcl" else "own")
    executed = esacl.run(config, tmp_path / "run").flops.executed
    assert executed_flops(config) == pytest.approx(executed, rel=0.1)
    kept = replace(config, options={"selection": {"removed": 0.0}})
    assert executed_flops(kept) > 1.15 * executed  # what they remove is worth foreseeing


def test_channels_that_leave_are_foreseen(tmp_path):
    config = Config.of(method="esacl-er", backbone="cnn", width=16, epochs=2, limit_per_class=40)
    removing = replace(config, options={"sparsity": {"unit": "channel"}})
    executed = esacl.run(removing, tmp_path / "run").flops.executed
    assert executed_flops(removing) == pytest.approx(executed, rel=0.2)
    assert executed_flops(config) > 1.5 * executed


def test_the_speed_is_that_of_whole_steps_of_the_method_with_its_threads(monkeypatch):
    ticks, threads = iter(range(1000)), []
    monkeypatch.setattr(
        "esacl.grid.estimate.perf_counter", lambda: threads.append(torch.get_num_threads()) or next(ticks)
    )
    config = Config.of(method="finetune", threads=1, batch_size=8)
    one = 3 * 2 * 8 * sum(macs_per_example(build_model("mlp", 256, (1, 8, 8), 4, 0), (1, 8, 8)).values())
    assert step_speed(config) == one  # a tick a step
    assert set(threads[1:]) == {1}


def test_short_steps_that_others_hold_up_do_not_set_the_speed(monkeypatch):
    """Ten slow steps of 5 ms, then steps of 1 ms: each looks at the clock twice."""
    ticks = accumulate(chain(repeat(0.0025, 20), repeat(0.0005)))
    monkeypatch.setattr("esacl.grid.estimate.perf_counter", lambda: next(ticks))
    config = Config.of(method="finetune", threads=1, batch_size=8)
    one = 3 * 2 * 8 * sum(macs_per_example(build_model("mlp", 256, (1, 8, 8), 4, 0), (1, 8, 8)).values())
    assert step_speed(config) == pytest.approx(one / 0.0005)


def test_a_dry_run_tells_flops_and_hours_here_and_on_a_given_device(recipe, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["grid", str(recipe()), "--out", str(tmp_path / "out"), "--dry-run", "--tflops", "10"])
    assert not ended.value.code
    told = capsys.readouterr().out
    assert "at 10 TFLOPS" in told
    assert "FLOP" in told
    rows = [line.split() for line in told.splitlines()]
    assert ["all", "6"] in [row[:2] for row in rows]
    assert not (tmp_path / "out").exists()


def test_tflops_without_a_dry_run_is_refused(recipe, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["grid", str(recipe()), "--out", str(tmp_path / "out"), "--tflops", "10"])
    assert ended.value.code == 2
    assert "--tflops 10 is not allowed" in capsys.readouterr().err
