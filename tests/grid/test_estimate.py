"""The cost of a grid before it starts: near to what its runs then execute, and told row by row."""

import pytest

import esacl
from esacl.cli import main
from esacl.config import Config
from esacl.grid.estimate import executed_flops


@pytest.mark.parametrize("method", ["finetune", "er", "ewc", "esacl-er", "packnet", "mtl"])
def test_an_estimate_is_near_to_what_a_run_executes(method, tmp_path):
    config = Config.of(method=method, epochs=2, limit_per_class=60)
    assert executed_flops(config) == pytest.approx(esacl.run(config, tmp_path / "run").flops.executed, rel=0.1)


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
