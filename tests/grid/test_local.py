"""A local grid: whatever is killed costs the time since its last checkpoint, and nothing is trained twice."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
import weakref

import psutil
import pytest

import esacl
from esacl.grid import local
from esacl.grid.events import RunFailed, RunFinished, RunNote, RunProgress
from esacl.grid.local import ATTEMPTS, LocalGrid
from esacl.grid.plan import lay_out
from esacl.grid.recipe import read_recipe
from tests.grid.workers import die

RECIPE = """
methods = ["er"]
seeds = [0, 1]
[base]
epochs = 2
limit_per_class = 40
batch_size = 2
buffer = 10
"""
pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")


@pytest.fixture
def cells(recipe, tmp_path):
    return lay_out(read_recipe(recipe(RECIPE)), tmp_path / "out")


def bits(directory):
    """What a run leaves behind, without what a clock or a memory gauge said."""
    results = json.loads((directory / "results.json").read_text())
    del results["seconds"], results["peak_memory_bytes"]
    return results, (directory / "model.safetensors").read_bytes()


def kinds(told, kind):
    """The seeds of the events of a kind."""
    return sorted(event.cell.seed for event in told if isinstance(event, kind))


def started(told):
    return sorted(event.cell.seed for event in told if isinstance(event, RunProgress) and event.words == "started")


def test_a_killed_process_loses_nothing_and_nothing_is_trained_twice(cells, tmp_path):
    told, killed_at, grid = [], None, LocalGrid(cells, 2)
    for event in grid.events():
        told.append(event)
        if killed_at is None and isinstance(event, RunProgress) and event.share > 0:
            killed, killed_at = event.cell, event.share
            (worker,) = [worker for worker in grid._workers if worker.run.cell is killed]
            os.kill(worker.process.pid, signal.SIGKILL)
    assert kinds(told, RunFinished) == started(told) == [0, 1]
    (note,) = [event for event in told if isinstance(event, RunNote)]
    assert (note.cell, note.text.split(";")[0]) == (killed, "its process was killed by SIGKILL")
    (again,) = [event for event in told if isinstance(event, RunProgress) and event.words == "continued"]
    assert again.cell is killed
    assert again.share >= killed_at
    esacl.run(killed.config(), tmp_path / "whole")
    assert bits(killed.path) == bits(tmp_path / "whole")


def test_a_run_whose_processes_die_again_and_again_is_given_up(cells, monkeypatch):
    monkeypatch.setattr(local, "serve", die)
    told = list(LocalGrid(cells, 1).events())
    assert [type(event) for event in told] == ([RunNote] * (ATTEMPTS - 1) + [RunFailed]) * 2
    assert told[0].text.startswith("its process ended with code 7")
    assert f"its process died {ATTEMPTS} times without a new checkpoint" in cells[0].failure()


def test_two_commands_on_one_folder_train_every_run_once(cells, monkeypatch):
    monkeypatch.setattr(local, "POLL", 0.05)
    first = LocalGrid(cells, 1).events()
    mine = [next(first)]  # its process holds the first run from now on
    theirs = list(LocalGrid(cells, 1).events())
    mine += first
    assert started([*mine, *theirs]) == [0, 1]
    assert kinds(mine, RunFinished) == kinds(theirs, RunFinished) == [0, 1]
    notes = [(event.cell.seed, event.text) for event in theirs if isinstance(event, RunNote)]
    assert notes == [(0, "another process is training it; this command waits for it.")]


def test_a_run_that_another_process_leaves_unfinished_is_taken_over(cells, monkeypatch):
    monkeypatch.setattr(local, "POLL", 0.05)
    first, second = LocalGrid(cells[:1], 1).events(), LocalGrid(cells[:1], 1).events()
    next(event for event in first if event.share > 0)
    assert "waits" in next(second).text
    first.close()
    words = [event.words for event in second if isinstance(event, RunProgress)]
    assert words[0] == "continued"
    assert cells[0].state() == "finished"


def test_a_process_keeps_nothing_of_a_run(cells, monkeypatch):
    seen, steps = [], local.steps

    def watched(run, *words):
        seen.append(weakref.ref(run.trainer.net))
        return steps(run, *words)

    monkeypatch.setattr(local, "steps", watched)
    local._train(cells[0], lambda *_: None)
    gc.collect()
    assert [ref() for ref in seen] == [None]


def command(recipe, tmp_path):
    """The command in a session of its own, as a terminal has it."""
    words = [sys.executable, "-m", "esacl", "grid", str(recipe(RECIPE)), "--out", str(tmp_path / "out"), "--jobs", "1"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    return process, " ".join(words[2:])


def wait_for(process, condition):
    while not condition():
        assert process.poll() is None
        time.sleep(0.02)


def test_a_killed_or_interrupted_command_leaves_no_process_and_goes_on(recipe, cells, tmp_path):
    saved = cells[0].directory.checkpoints
    process, _ = command(recipe, tmp_path)
    wait_for(process, saved.numbers)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    assert [found for member in family for found in member.net_connections("all")] == []  # nobody can reach it
    process.kill()  # the command alone: its processes notice
    process.communicate(timeout=60)
    psutil.wait_procs(family[1:], timeout=60)
    assert not any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family[1:])

    before = max(saved.numbers())
    process, words = command(recipe, tmp_path)
    wait_for(process, lambda: max(saved.numbers(), default=0) > before)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal: to the command and all its processes
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"Continue with: {words}" in told
    assert "Traceback" not in told
    assert cells[0].state() == "begun"

    again = [event for event in LocalGrid(cells[:1], 1).events() if isinstance(event, RunProgress)]
    assert again[0].words == "continued"
    esacl.run(cells[0].config(), tmp_path / "whole")
    assert bits(cells[0].path) == bits(tmp_path / "whole")
