"""A run directory, as anyone may send it: nothing outside it is written, nothing foreign in it is removed."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from esacl import Config, resume, run
from esacl.artifacts import RunDirectory
from esacl.deploy import open_model
from esacl.errors import EsaclError, RunError
from esacl.files import Folder, write_atomic
from esacl.report import load_run
from esacl.runner import start
from esacl.training.events import EpochDone
from tests.builders import stream

QUICK = {"method": "finetune", "epochs": 2, "batch_size": 8, "width": 16}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(Config.of(**QUICK), out, stream=stream())
    return out


@pytest.fixture
def copy(whole, tmp_path):
    """One that may be changed."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.mark.parametrize("name", ["events.jsonl", "checkpoint", "config.toml", "model.safetensors", ".lock"])
def test_a_link_in_the_place_of_a_file_is_refused_and_not_followed(copy, tmp_path, name):
    (copy / "results.json").unlink()
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(1, 9):
        (outside / f"{number:06d}.safetensors").write_text("mine")
    target = outside if name == "checkpoint" else outside / "000001.safetensors"
    place = copy / name
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    place.symlink_to(target)
    with pytest.raises(RunError, match="is a link"):
        resume(copy, stream=stream())
    assert [path.read_text() for path in sorted(outside.iterdir())] == ["mine"] * 8


def test_a_folder_inside_another_is_never_reached_through_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint").symlink_to(tmp_path / "outside")
    inner = Folder(tmp_path / "run" / "checkpoint", Folder(tmp_path / "run"))
    with pytest.raises(RunError, match="is a link"):
        inner.write("000001.safetensors", b"x")
    assert not list((tmp_path / "outside").iterdir())


def test_temporary_names_are_new_and_cannot_be_guessed(tmp_path, monkeypatch):
    seen = []
    usual = os.open

    def watched(path, flags, *rest, **more):
        if str(path).endswith(".tmp"):
            seen.append((str(path), flags))
        return usual(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", watched)
    (tmp_path / f".a.txt.{os.getpid()}.tmp").symlink_to(tmp_path / "mine")
    for _ in range(2):
        write_atomic(tmp_path / "a.txt", "x")
    assert len({name for name, _ in seen}) == 2
    assert all(flags & os.O_EXCL for _, flags in seen)
    assert not (tmp_path / "mine").exists()


def test_foreign_temporary_files_stay(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".draft.tmp").write_text("mine")
    run(Config.of(**QUICK), tmp_path / "run", stream=stream())
    assert (tmp_path / "run" / ".draft.tmp").read_text() == "mine"


def test_overwriting_empties_no_folder_that_is_not_a_run(tmp_path):
    (tmp_path / "config.toml").touch()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"not the config\.toml of a run"):
        run(Config.of(**QUICK), tmp_path, stream=stream(), overwrite=True)
    assert (tmp_path / "checkpoint" / "notes.txt").read_text() == "mine"


def test_overwriting_a_run_leaves_what_others_put_beside_its_files(copy):
    for folder in ("checkpoint", "tensorboard"):
        (copy / folder).mkdir(exist_ok=True)
        (copy / folder / "notes.txt").write_text("mine")
    run(Config.of(**QUICK, seed=1), copy, stream=stream(), overwrite=True)
    assert [(copy / folder / "notes.txt").read_text() for folder in ("checkpoint", "tensorboard")] == ["mine"] * 2


def test_a_run_whose_lock_was_taken_away_stops_before_it_writes(tmp_path):
    out = tmp_path / "run"

    def train():
        with start(Config.of(**QUICK), out, stream()) as opened:
            for event in opened.events():
                if isinstance(event, EpochDone) and event.epoch == 0 and event.task == 0:
                    (out / ".lock").unlink()
                    written.append((out / "events.jsonl").read_bytes())

    written: list[bytes] = []
    with pytest.raises(RunError, match=r"\.lock' was removed or replaced"):
        train()
    assert [(out / "events.jsonl").read_bytes()] == written
    assert resume(out, stream=stream()).task_il >= 0


def flip(path: Path) -> None:
    """Change one bit of the last tensor."""
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(bytes(data))


def test_a_flipped_bit_in_the_weights_of_a_run_is_noticed(copy):
    flip(copy / "model.safetensors")
    with pytest.raises(EsaclError, match="do not match its digest"):
        open_model(copy)


def test_weights_of_earlier_versions_are_read_with_a_note(copy):
    path = copy / "model.safetensors"
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["esacl"])
    del about["sha256"]
    save_file(load_file(path), path, {"esacl": json.dumps(about)})
    with pytest.warns(UserWarning, match="no digest"):
        assert open_model(copy).classes


@pytest.mark.parametrize("other", [{"seed": 1}, {"epochs": 1}])
def test_results_of_another_run_are_noticed(copy, tmp_path, other):
    run(Config.of(**{**QUICK, **other}), tmp_path / "other", stream=stream())
    shutil.copy(tmp_path / "other" / "results.json", copy / "results.json")
    for read in (load_run, open_model, resume):
        with pytest.raises(RunError, match="is of another run"):
            read(copy)


def test_results_that_belong_to_other_weights_are_noticed(copy):
    document = json.loads((copy / "results.json").read_text())
    (copy / "results.json").write_text(json.dumps({**document, "weights_sha256": "0" * 64}))
    with pytest.raises(RunError, match="another digest"):
        RunDirectory(copy).read_results()
    assert torch.is_tensor(next(iter(load_file(copy / "model.safetensors").values())))
