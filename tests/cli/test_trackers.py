"""Events of a run: told one by one, logged once each, and given to TensorBoard."""

import json
from contextlib import closing

import pytest

import esacl
from esacl.errors import ConfigError, RunError
from esacl.events import EpochDone, Finished, Pruned, StepDone, TaskDone, TaskStarted
from tests.cli.commands import esacl as command

SETTINGS = esacl.Config.of(method="esacl-der++", epochs=2, buffer=20, tasks=2, limit_per_class=16, threads=1, width=16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of `esacl.run`."""
    out = tmp_path_factory.mktemp("whole") / "run"
    esacl.run(SETTINGS, out)
    return out


def log(out):
    """The lines of the event log, without what a clock said."""
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_a_stream_tells_every_event_in_order_and_ends_with_the_bits_of_run(whole, tmp_path):
    events = list(esacl.iter_run(SETTINGS, tmp_path / "run"))
    told = [type(event) for event in events if not isinstance(event, StepDone)]
    assert told == [*[TaskStarted, EpochDone, EpochDone, Pruned, TaskDone] * 2, Finished]
    started, pruned = events[0], [event for event in events if isinstance(event, Pruned)][-1]
    assert (started.task, started.tasks, len(started.classes)) == (0, 2, 5)
    steps = [event for event in events if isinstance(event, StepDone) and event.task == 0]
    assert sum(event.samples for event in steps) == 2 * started.examples
    done = [event for event in events if isinstance(event, TaskDone)][-1]
    last = events[-1]
    assert pruned.density == done.density == last.results.density
    assert last.out == tmp_path / "run"
    assert (last.out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert log(last.out) == log(whole)


@pytest.mark.parametrize("kind", [TaskStarted, StepDone, EpochDone, Pruned, TaskDone])
def test_a_loop_that_is_left_can_go_on_to_the_same_bits_and_the_same_log(kind, whole, tmp_path):
    out = tmp_path / "run"
    seen = 0
    for event in esacl.iter_run(SETTINGS, out):
        seen += isinstance(event, kind)
        if seen == 2:
            break
    with (out / "events.jsonl").open("a") as file:
        file.write('{"event": "epo')  # as a process leaves it that dies while it writes
    *_, last = esacl.iter_run(out)
    assert isinstance(last, Finished)
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert log(out) == log(whole)
    assert list(esacl.iter_run(out)) == [last], "nothing is left to do"


def test_the_directory_is_held_until_the_loop_is_left(tmp_path):
    with closing(esacl.iter_run(SETTINGS, tmp_path / "run")) as events:
        next(events)
        with pytest.raises(RunError, match="another process"):
            esacl.resume(tmp_path / "run")
    assert esacl.resume(tmp_path / "run").tasks == 2


def test_a_stream_without_a_place_takes_the_one_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    next(esacl.iter_run(SETTINGS))
    assert (tmp_path / "runs" / "esacl-der++-split-digits-0" / "config.toml").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"out": "elsewhere"}, "but out = 'elsewhere' was given"),
        ({"overwrite": True}, "but overwrite = True was given"),
    ],
)
def test_the_directory_of_a_run_takes_no_other_place_and_replaces_nothing(given, words, whole):
    with pytest.raises(ConfigError, match=words):
        next(esacl.iter_run(whole, **given))


def test_a_finished_run_has_its_report_written_again(whole):
    (whole / "report.html").unlink()
    assert [type(event) for event in esacl.iter_run(whole)] == [Finished]
    assert (whole / "report.html").exists()


def test_processes_are_those_that_go_on_with_a_run_and_a_setting_of_a_new_one(whole, tmp_path):
    with pytest.raises(ConfigError, match=r"Config\.of\(\.\.\., processes=2\)"):
        next(esacl.iter_run(SETTINGS, tmp_path / "run", processes=2))
    next(esacl.iter_run(SETTINGS, tmp_path / "run"))
    with pytest.raises(ConfigError, match=r"processes=64 is more than train\.batch_size = 32"):
        next(esacl.iter_run(tmp_path / "run", processes=64))


def scalars(folder):
    """What TensorBoard itself reads in a folder: (step, value) by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def _near(values):
    return [(step, pytest.approx(value)) for step, value in enumerate(values, start=1)]


def test_tensorboard_shows_loss_rate_accuracies_and_density_and_nothing_twice(whole, tmp_path):
    pytest.importorskip("tensorboard")
    command("resume", whole, "--tensorboard")  # a finished run, from its log
    expected = scalars(whole / "tensorboard")
    lines = log(whole)
    epochs = [line for line in lines if line["event"] == "epoch"]
    tasks = [line for line in lines if line["event"] == "task"]
    assert expected["train/loss"] == _near(line["loss"] for line in epochs)
    assert expected["train/learning rate"] == _near(line["lr"] for line in epochs)
    assert expected["density"] == _near(line["density"] for line in tasks)
    assert expected["Task-IL/task 1"] == _near(line["task_il"][0] for line in tasks)
    assert expected["Class-IL/task 2"] == [(2, pytest.approx(tasks[1]["class_il"][1]))]
    assert expected["accuracy/Task-IL"][1] == (2, pytest.approx(sum(tasks[1]["task_il"]) / 2))

    out = tmp_path / "run"
    (tmp_path / "same.toml").write_text((whole / "config.toml").read_text())
    command("run", "--config", tmp_path / "same.toml", "--out", out, "--tensorboard")
    assert scalars(out / "tensorboard") == expected
    (out / "results.json").unlink()
    command("resume", out, "--tensorboard")
    assert scalars(out / "tensorboard") == expected
    command("run", "--config", tmp_path / "same.toml", "--out", out, "--overwrite")
    assert not (out / "tensorboard").exists()


NORMALISES = """
from torch import nn
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU())
"""


def test_a_failure_before_anything_was_saved_leaves_the_directory_free_for_the_corrected_command(
    fails, tmp_path, monkeypatch
):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "normalises.py").write_text(NORMALISES)
    words = ["--method", "finetune", "--epochs", 1, "--tasks", 2, "--limit-per-class", 6, "--out", "run"]
    words += ["--tensorboard", "--backbone", "normalises.py:net"]
    for _ in range(2):
        assert "single example" in fails("run", *words, "--batch-size", 1)
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name != ".lock"] == []
    command("run", *words)
    assert (tmp_path / "run" / "results.json").exists()


def test_tensorboard_that_is_absent_is_told_before_anything_is_trained(fails, tmp_path, monkeypatch):
    monkeypatch.setattr("esacl.trackers.find_spec", lambda name: None)
    assert "pip install 'esacl[tensorboard]'" in fails("run", "--tensorboard", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_old_name_of_iter_run_warns_and_still_works():
    with pytest.warns(DeprecationWarning, match=r"esacl\.stream is called esacl\.iter_run now"):
        assert esacl.stream is esacl.iter_run
