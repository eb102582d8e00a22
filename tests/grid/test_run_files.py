"""What travels: only files of a run, written in an order that leaves a run that can go on."""

import pytest

from esacl.artifacts import RunDirectory
from esacl.errors import RunError
from esacl.grid import run_files


@pytest.mark.parametrize(
    "name", ["../config.toml", "/etc/passwd", "checkpoint/../x.safetensors", "checkpoint", ".lock"]
)
def test_a_name_that_no_run_has_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(RunError, match="which no run has"):
        run_files.unpack({"config.toml": b"", name: b""}, RunDirectory(tmp_path))
    assert not list(tmp_path.iterdir())


def test_events_are_there_before_their_checkpoint_and_results_come_last(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("esacl.files.Folder.write", lambda folder, name, data: written.append(name))
    files = ["results.json", "checkpoint/000010.safetensors", "checkpoint/000009.safetensors", "report.html"]
    run_files.unpack(
        dict.fromkeys([*files, "model.safetensors", "events.jsonl", "config.toml"], b""), RunDirectory(tmp_path)
    )
    assert written == [
        "config.toml",
        "events.jsonl",
        "000009.safetensors",
        "000010.safetensors",
        "model.safetensors",
        "report.html",
        "results.json",
    ]


def test_a_run_that_saved_nothing_starts_anew_and_one_that_did_sends_its_checkpoints(tmp_path):
    directory = RunDirectory(tmp_path)
    (tmp_path / "config.toml").write_text("seed = 0")
    assert run_files.to_continue(directory) == {}
    directory.checkpoints.put(1, b"first")
    directory.checkpoints.put(2, b"second")
    assert set(run_files.to_continue(directory)) == {
        "config.toml",
        "checkpoint/000001.safetensors",
        "checkpoint/000002.safetensors",
    }
    assert run_files.so_far(directory)["checkpoint/000002.safetensors"] == b"second"
    assert "checkpoint/000001.safetensors" not in run_files.so_far(directory)
