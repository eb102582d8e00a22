"""Runs from Python: own arrays, resuming them, and misuse."""

import json
import subprocess
import sys

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import Tensor

import esacl
from esacl.errors import CheckpointError, ConfigError, RunError
from esacl.nets import build_model
from esacl.runner import start
from esacl.training.events import TaskDone
from tests.reference.evaluate import accuracies

SETTINGS = esacl.Config.of(method="er", epochs=2, buffer=20, batch_size=8)


@pytest.fixture
def stream():
    numbers = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    x = (y[:, None, None] * 50 + numbers.integers(0, 40, (80, 6, 6))).astype(np.uint8)
    return esacl.from_arrays(x, y, classes_per_task=2, name="bars")


def test_a_run_on_arrays_resumes_when_it_is_given_the_same_arrays(stream, tmp_path):
    whole = esacl.run(SETTINGS, tmp_path / "whole", stream=stream)
    assert whole.stream == "arrays:bars"
    with start(SETTINGS, tmp_path / "half", stream=stream) as half:
        for event in half.events():
            if isinstance(event, TaskDone):
                break
    with pytest.raises(ConfigError, match=r"esacl\.resume\(out, stream="):
        esacl.resume(tmp_path / "half")
    other = esacl.from_arrays(np.zeros((80, 6, 6), np.uint8), np.repeat(np.arange(4), 20), classes_per_task=2)
    with pytest.raises(CheckpointError, match="not those that the run"):
        esacl.resume(tmp_path / "half", stream=other)
    events = []
    resumed = esacl.resume(tmp_path / "half", stream=stream, listen=events.append)
    assert events
    assert resumed.matrix == whole.matrix
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "half")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_finished_run_is_returned_as_it_was(stream, tmp_path):
    results = esacl.run(SETTINGS, tmp_path / "run", stream=stream)
    assert esacl.resume(tmp_path / "run") == results


@pytest.mark.parametrize("method", ["er", "icarl", "co2l", "esacl-co2l"])
def test_a_plain_network_with_the_saved_weights_answers_as_it_was_evaluated(method, stream, tmp_path):
    results = esacl.run(esacl.Config.of(method=method, epochs=3, buffer=20, batch_size=8), tmp_path / "run", stream)
    model = build_model("mlp", 256, stream.shape, 4, seed=7)
    model.load_state_dict(load_file(tmp_path / "run" / "model.safetensors"))
    task_il, class_il = accuracies(model, stream, "test")
    assert results.matrix["task_il"][-1] == pytest.approx(task_il)
    assert results.matrix["class_il"][-1] == pytest.approx(class_il)
    assert min(task_il) > 0.5
    right = [row[place] for place, row in enumerate(results.confusion)]
    sizes = [len(task.test) for task in stream.tasks]
    assert [sum(right[2 * t : 2 * t + 2]) / sizes[t] for t in range(2)] == pytest.approx(class_il)


@pytest.mark.parametrize("method", ["finetune", "er", "icarl", "esacl-co2l"])
def test_remembered_are_the_bytes_of_all_tensors_that_the_parts_hold(method, stream, tmp_path):
    def held(state):
        if isinstance(state, Tensor):
            return state.nbytes
        values = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
        return sum(map(held, values))

    buffer = {} if method == "finetune" else {"buffer": 20}
    with start(esacl.Config.of(method=method, epochs=1, **buffer), tmp_path / "run", stream=stream) as opened:
        for _ in opened.events():
            pass
        results = opened.finish()
        bytes_of = {name: held(state) for name, state in opened.trainer.parts.state_dict().items()}
    assert results.remembered_bytes == sum(bytes_of.values())
    document = json.loads((tmp_path / "run" / "results.json").read_text())
    assert document["remembered_bytes"] == results.remembered_bytes
    images = 20 * 36
    assert (bytes_of["objective"] == 0) if method == "finetune" else (bytes_of["objective"] > images)
    assert (bytes_of["sparsity"] > 0) == method.startswith("esacl")


def test_the_peak_of_memory_is_that_of_all_processes_of_a_run(stream, tmp_path, monkeypatch):
    monkeypatch.setattr("esacl.runner.active_run.peak_memory_bytes", lambda device: 900)
    with start(SETTINGS, tmp_path / "run", stream=stream) as half:
        for event in half.events():
            if isinstance(event, TaskDone):
                break
    monkeypatch.setattr("esacl.runner.active_run.peak_memory_bytes", lambda device: 700)
    assert esacl.resume(tmp_path / "run", stream=stream).peak_memory_bytes == 900


def test_a_name_instead_of_a_config_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ConfigError, match=r"Write esacl\.Config\.of\(method="):
        esacl.run("er", tmp_path / "run")


@pytest.mark.parametrize("text", ["[]", "{", '{"schema": 1}'])
def test_damaged_results_are_one_line_with_a_remedy(stream, tmp_path, text):
    esacl.run(SETTINGS, tmp_path / "run", stream=stream)
    (tmp_path / "run" / "results.json").write_text(text)
    with pytest.raises(RunError, match=r"is damaged.*Delete it"):
        esacl.resume(tmp_path / "run", stream=stream)


def test_a_run_that_failed_before_anything_was_saved_makes_way_for_the_corrected_one(stream, tmp_path, monkeypatch):
    def diverged(self):
        raise RunError("training diverged")
        yield

    with monkeypatch.context() as patched:
        patched.setattr("esacl.training.trainer.Trainer.run", diverged)
        with pytest.raises(RunError, match="training diverged"):
            esacl.run(SETTINGS, tmp_path / "run", stream=stream)
    assert esacl.run(SETTINGS, tmp_path / "run", stream=stream).method == "er"


def test_a_directory_that_cannot_be_written_is_one_line(stream, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write to"):
        esacl.run(SETTINGS, tmp_path / "file" / "run", stream=stream)


def test_the_package_imports_without_torch_and_names_what_it_lacks():
    code = "import sys, esacl; assert 'torch' not in sys.modules; esacl.nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "module 'esacl' has no attribute 'nothing'" in done.stderr


def test_the_module_is_the_command_line_and_starts_without_what_few_commands_need():
    words = [sys.executable, "-X", "importtime", "-m", "esacl", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == esacl.__version__
    imported = {line.rsplit("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "cyclopts" in imported
    assert imported.isdisjoint({"torch", "sklearn", "scipy", "distributed", "onnx", "onnxruntime", "tensorboard"})


def test_a_method_that_the_stream_does_not_suit_is_refused_before_anything_is_touched(stream, tmp_path):
    esacl.run(SETTINGS, tmp_path / "run", stream=stream)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    small = esacl.Config.of(method="icarl", epochs=1, buffer=3)
    with pytest.raises(ConfigError, match="Use buffer=4 or more"):
        esacl.run(small, tmp_path / "run", stream=stream, overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == before
    with pytest.raises(ConfigError, match="Use buffer=4 or more"):
        esacl.run(small, tmp_path / "other", stream=stream)
    assert not (tmp_path / "other").exists()


def test_forward_transfer_is_not_defined_for_a_readout_that_answers_only_what_it_has_seen(stream, tmp_path):
    fitted = esacl.run(esacl.Config.of(method="icarl", epochs=1, buffer=20), tmp_path / "fitted", stream=stream)
    assert fitted.fwt == {"task_il": None, "class_il": None}
    assert None not in esacl.run(SETTINGS, tmp_path / "own", stream=stream).fwt.values()


@pytest.mark.parametrize(
    ("method", "asked", "columns"),
    [("er", None, "all"), ("er", "seen", "seen"), ("gpm", None, "task"), ("gpm", "all", "all"), ("wsn", None, "task")],
)
def test_results_say_which_classes_a_task_was_learnt_among(method, asked, columns, stream, tmp_path):
    results = esacl.run(esacl.Config.of(method=method, epochs=1, columns=asked), tmp_path / "run", stream=stream)
    assert results.columns == columns
    assert results.logit_mask == "none"
    assert esacl.Results.from_json(json.loads((tmp_path / "run" / "results.json").read_text())).columns == columns
