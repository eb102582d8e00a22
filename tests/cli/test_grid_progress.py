"""A grid says how far it is: with bars in a terminal, with lines elsewhere."""

from io import StringIO

import pytest
from rich.console import Console

from esacl.cli.grid_progress import SHOWN, grid_progress
from esacl.grid.events import RunFailed, RunFinished, RunNote, RunProgress
from esacl.grid.plan import Cell
from esacl.grid.points import Point
from tests.report.fabricate import results, write_run


@pytest.fixture
def cells(tmp_path):
    return [Cell(Point("er", {}, {}), seed, write_run(tmp_path / str(seed), results(seed=seed))) for seed in range(20)]


def told(cells, terminal):
    """What people see of a grid in which one run fails."""
    text = StringIO()
    with grid_progress(Console(file=text, force_terminal=terminal, width=150), cells) as show:
        for cell in cells:
            show(RunProgress(cell, 0.25, "task 2/5, epoch 1/10"))
        show(RunNote(cells[0], "its worker died"))
        show(RunFinished(cells[0]))
        show(RunFailed(cells[1], "no data"))
    return text.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_names_are_text_wherever_they_stand(tmp_path, terminal):
    cell = Cell(Point("er [/b] {x} [red]", {}, {}), 0, write_run(tmp_path / "0", results()))
    assert "er [/b] {x} [red], seed 0" in told([cell, cell], terminal)


def test_lines_tell_what_ended_and_how_long_the_rest_takes(cells, monkeypatch):
    clock = iter([0.0, 3.0, 3.0])
    monkeypatch.setattr("esacl.cli.grid_progress.monotonic", lambda: next(clock))
    lines = told(cells, terminal=False).splitlines()
    assert lines[0] == "note: er, seed 0: its worker died"
    assert lines[1].startswith("[1/20, about 57.0 s left] er, seed 0: Task-IL ")  # 0.75 runs in 3 s, 14.25 to do
    assert lines[2].endswith("left] FAILED er, seed 1: no data")
    assert len(lines) == 3


def test_a_terminal_has_a_bar_for_each_of_some_runs_and_one_for_all(cells):
    text = told(cells, terminal=True)
    last = text.rpartition("all runs")[2]
    assert "2/20" in last
    assert "FAILED er, seed 1: no data" in text
    assert "task 2/5, epoch 1/10" in last
    assert f"er, seed {SHOWN - 1} " in last
    assert f"er, seed {SHOWN} " not in last  # more do not fit
