"""The paper's own accounting of cost: density after pruning × share of data × 2 for SAM, of dense training."""

from pathlib import Path

import pytest

import esacl
from esacl.artifacts import Results, RunDirectory
from esacl.report import load_run
from esacl.report.rows import rows_of
from esacl.report.table import tables
from tests.builders import stream
from tests.report.fabricate import results, write_run


def credited(method: str, out: Path, **options: dict[str, float]) -> tuple[Results, float]:
    """Results of a small run, and its credited FLOPs relative to dense training by the paper's formula."""
    config = esacl.Config.of(method=method, epochs=2, batch_size=8, backbone="mlp", width=16).with_options(**options)
    dense = esacl.run(
        esacl.Config.of(method="finetune", epochs=2, batch_size=8, backbone="mlp", width=16),
        out / "d",
        stream=stream(tasks=2),
    )
    found = esacl.run(config, out / "s", stream=stream(tasks=2))
    assert found.flops.credited is not None
    assert dense.flops.credited == pytest.approx(dense.flops.paper)
    return found, found.flops.credited / dense.flops.paper


def test_credit_is_density_times_share_kept_times_two_for_the_ascent(tmp_path: Path) -> None:
    chosen = {"gradient": {"rho": 0.05}, "selection": {"keep": 0.4}, "sparsity": {"level": 0.8}}
    found, share = credited("esacl", tmp_path, **chosen)
    assert share == pytest.approx(found.density * 0.4 * 2)
    assert found.density == pytest.approx(0.2, abs=0.01)
    assert RunDirectory(tmp_path / "s").read_results() == found


def test_results_of_before_are_read_without_a_credited_figure(tmp_path: Path) -> None:
    old = load_run(write_run(tmp_path / "old", results("er")))
    assert old.flops.credited is None


def test_the_paper_s_flops_stand_beside_the_credited_ones(tmp_path: Path) -> None:
    found = results("esacl-der++", "split-cifar100", tasks=10)
    found["flops"] = found["flops"] | {"credited": 4e11}
    (sheet,) = tables(rows_of([load_run(write_run(tmp_path / "run", found))]), paper=True, everything=False)
    place = sheet.head.index("FLOPs in the paper (TFLOP)")
    assert sheet.head[place - 1].startswith("FLOPs credited")
