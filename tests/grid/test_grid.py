"""Grids: nothing is trained twice, what was interrupted goes on, a failure is told and stops nobody else."""

import csv
import json
import sys
from contextlib import closing

import pytest

from esacl.cli import main
from esacl.grid.cluster import connect
from esacl.grid.events import RunFinished, RunProgress
from esacl.grid.plan import lay_out
from esacl.grid.recipe import read_recipe
from esacl.grid.scheduler import ClusterGrid
from esacl.grid.scheduler_worker import Pace
from esacl.grid.study import read_study
from tests.grid.conftest import RECIPE
from tests.grid.workers import serve_broken

ONE = RECIPE.replace("seeds = [0, 1]", "seeds = [0]").replace("[8, 16]", "[16]")


@pytest.fixture
def grid(recipe, tmp_path, capsys):
    """Runs the command with one process; returns exit code and both outputs."""

    def run(text, *words):
        try:
            main(["grid", str(recipe(text)), "--out", str(tmp_path / "out"), "--jobs", "1", *words])
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--seeds", "a"], "--seeds 'a' is not allowed"),
        (["--seeds", "1", "1"], "seeds = [1, 1] is not allowed"),
        (["--jobs", "0"], "--jobs 0 is not allowed"),
        (["--jobs", "2", "--scheduler", "tcp://host:1"], "Leave one of the two out"),
        (["--only", "derpp"], "unknown row 'derpp'"),
        (["--scheduler", "no address"], "--scheduler 'no address' is not encrypted"),
    ],
)
def test_bad_words_on_the_command_line_are_told(recipe, tmp_path, capsys, words, told):
    with pytest.raises(SystemExit) as ended:
        main(["grid", str(recipe()), "--out", str(tmp_path / "out"), *words])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_without_dask_a_grid_trains_here_and_a_cluster_says_what_to_install(
    recipe, grid, brief, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = ["grid", str(recipe(ONE)), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--scheduler", "tls://host:1"])
    assert ended.value.code == 2
    assert "pip install 'esacl[sweep]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert grid(ONE)[0] == 0
    assert len(list((tmp_path / "out").rglob("results.json"))) == 2


def test_what_is_finished_is_not_repeated_and_what_was_changed_is(grid, brief, tmp_path):
    out, text = tmp_path / "out", RECIPE.replace("[8, 16]", "[16]")
    assert "2 of 4 runs to do" in grid(text, "--only", "finetune")[2]
    before = (out / "finetune" / "1" / "results.json").read_bytes()
    code, table, told = grid(text)
    assert code == 0
    assert "2 of 4 runs to do" in told
    assert "[2/2] er, batch_size 16, seed 1: Task-IL" in told
    assert "er, batch_size 16" in table
    assert "0 of 4 runs to do" in grid(text)[2]
    assert (out / "finetune" / "1" / "results.json").read_bytes() == before

    rows = list(csv.DictReader((out / "figures.csv").open(encoding="utf-8")))
    assert [(row["row"], row["batch_size"], row["seed"]) for row in rows[:3]] == [
        ("finetune", "", "0"),
        ("finetune", "", "1"),
        ("er", "16", "0"),
    ]
    results = json.loads((out / "er-batch_size-16" / "1" / "results.json").read_text())
    assert float(rows[-1]["class_il"]) == results["class_il"]
    assert float(rows[-1]["flops_executed"]) == results["flops"]["executed"]
    document = (out / "table.md").read_text(encoding="utf-8")
    assert document.startswith("# Small digits\n\nAs few as possible.\n")
    assert "## Every seed" in document

    assert grid(text.replace("= 0.5", "= 0.4"), "--only", "finetune", "--seeds", "1")[0] == 0
    assert "momentum = 0.4" in (out / "finetune" / "1" / "config.toml").read_text()
    lines = (out / "table.md").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("| er, batch_size 16 | 0 of 1 |") for line in lines)  # not of these settings


def test_an_interrupted_grid_continues_inside_a_run_and_ends_with_the_same_bits(recipe, cluster, brief, tmp_path, grid):
    wanted = read_recipe(recipe(ONE.replace("epochs = 1", "epochs = 3")))
    cells = lay_out(wanted, tmp_path / "out")
    whole = lay_out(wanted, tmp_path / "whole")
    with connect(cluster) as client:
        with closing(ClusterGrid(client, cells).events()) as news:
            next(event for event in news if isinstance(event, RunProgress) and event.share > 0)
        assert cells[0].state() == "begun"
        assert cells[0].directory.checkpoints.numbers()
        again = [event for event in ClusterGrid(client, cells).events() if isinstance(event, RunProgress | RunFinished)]
        assert again[0].words == "continued"
        assert again[0].share > 0
        list(ClusterGrid(client, whole).events())
    for one, other in zip(cells, whole):
        assert one.state() == other.state() == "finished"
        assert one.directory.weights.read_bytes() == other.directory.weights.read_bytes()


def test_a_worker_stops_when_nobody_waits_for_its_run_any_more(recipe, cluster, tmp_path):
    long = lay_out(read_recipe(recipe(ONE.replace("epochs = 1", "epochs = 5000"))), tmp_path / "out")
    with connect(cluster) as client:
        with closing(ClusterGrid(client, long[:1]).events()) as news:
            next(event for event in news if isinstance(event, RunProgress) and event.share > 0)
        assert client.submit(sorted, [2, 1], pure=False).result(timeout=60) == [1, 2]  # its only thread is free again


def test_a_grid_writes_its_page_and_says_where(grid, tmp_path):
    code, told, _ = grid(ONE, "--only", "finetune")
    page = tmp_path / "out" / "report.html"
    assert code == 0
    assert f"report: {page}" in told
    assert "runs finished <b>1 of 2</b>" in page.read_text("utf-8")


def test_the_tables_name_the_command_with_its_seeds(grid, brief, tmp_path):
    _, _, news = grid(ONE, "--only", "finetune", "--seeds", "3")
    assert "on 1 process of this machine." in news
    measured = (tmp_path / "out" / "table.md").read_text("utf-8").splitlines()[-1]
    assert measured.startswith(f"Measured with `esacl grid {tmp_path / 'small.toml'} --seeds 3`")


def test_a_failed_run_is_told_with_its_reason_and_the_others_go_on(grid, brief, tmp_path):
    bad = ONE.replace('buffer = ""', 'buffer = ""\nstream = "folder:/nowhere"')
    code, table, told = grid(bad)
    assert code == 1
    assert "FAILED finetune, seed 0: " in told
    assert "/nowhere" in told
    assert "1 of 2 runs failed" in told
    assert "0 of 1" in table
    assert (tmp_path / "out" / "er-batch_size-16" / "0" / "results.json").exists()
    document = tmp_path / "out" / "table.md"
    assert "## Failed\n\n- finetune, seed 0: " in document.read_text(encoding="utf-8")
    failed = read_study([tmp_path / "out"]).failures
    assert [name for name, _ in failed] == ["finetune, seed 0"]
    assert "/nowhere" in failed[0][1]
    assert grid(ONE)[0] == 0
    assert not read_study([tmp_path / "out"]).failures
    assert "## Failed" not in document.read_text(encoding="utf-8")


def test_what_no_user_can_cause_goes_into_a_log_beside_the_run(grid, brief, tmp_path, monkeypatch):
    monkeypatch.setattr("esacl.grid.local.serve", serve_broken)
    code, _, told = grid(ONE, "--only", "finetune")
    assert code == 1
    assert "FAILED finetune, seed 0: ZeroDivisionError: by accident" in told
    assert "in broken" in (tmp_path / "out" / "finetune" / "0.log").read_text()


def test_a_run_of_somebody_else_is_not_touched(grid, tmp_path):
    theirs = tmp_path / "out" / "finetune" / "0"
    theirs.mkdir(parents=True)
    (theirs / "config.toml").write_text("")
    code, _, told = grid(ONE)
    assert code == 2
    assert "holds a run that no grid began" in told
    assert (theirs / "config.toml").read_text() == ""


def test_the_end_of_a_task_is_always_sent_and_epochs_only_where_that_is_cheap():
    now = 0.0
    pace = Pace(clock=lambda: now)
    assert pace.due(always=False)
    pace.sent(0.5)
    now = 9.0
    assert not pace.due(always=False)
    assert pace.due(always=True)
    now = 10.0
    assert pace.due(always=False)
