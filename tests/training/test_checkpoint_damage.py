import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from esacl.artifacts import RunDirectory
from esacl.errors import CheckpointError
from esacl.training.checkpoint import FORMAT, KEPT, Checkpoints, pack, unpack
from tests.training.checkpoint_tools import STATE, identical, write


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF])
def test_a_flipped_byte_anywhere_is_an_error(tmp_path: Path, mask: int) -> None:
    path = write(tmp_path, STATE)
    data = path.read_bytes()
    for place in range(0, len(data), 3 if mask == 0xFF else 7):
        changed = bytearray(data)
        changed[place] ^= mask
        path.write_bytes(changed)
        with pytest.raises(CheckpointError):
            unpack(path)


def test_a_file_cut_short_anywhere_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, STATE)
    data = path.read_bytes()
    for length in (*range(0, len(data), 5), len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="cannot be read"):
            unpack(path)


def test_a_file_with_something_appended_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, STATE)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CheckpointError):
        unpack(path)


def test_a_changed_value_is_reported_as_damage(tmp_path: Path) -> None:
    path = write(tmp_path, STATE)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged: its contents do not match its digest"):
        unpack(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"format": "esacl-checkpoint-0", "tree": "1"}])
def test_a_safetensors_file_of_somebody_else_is_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"x": torch.ones(2)}, path, metadata)
    with pytest.raises(CheckpointError, match="is not a checkpoint of this library"):
        unpack(path)


def test_a_claim_to_be_a_checkpoint_is_not_enough(tmp_path: Path) -> None:
    path = tmp_path / "claim.safetensors"
    save_file({"x": torch.ones(2)}, path, {"format": FORMAT})
    with pytest.raises(CheckpointError, match="damaged"):
        unpack(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", pickle.dumps({"a": 1}), b"\xff" * 100])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
        unpack(path)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"none\.safetensors"):
        unpack(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", 1j, np.zeros(2), np.int64(3), Path("x"), torch.Generator(), torch.float32]
)
def test_a_state_with_other_python_objects_is_refused_with_their_place(value: Any) -> None:
    with pytest.raises(CheckpointError, match=f"/outer/0/inner is a {type(value).__name__}"):
        pack({"outer": [{"inner": value}]})


@pytest.mark.parametrize("key", [1.5, None, (1, 2), b"x"])
def test_a_state_with_other_keys_is_refused(key: Any) -> None:
    with pytest.raises(CheckpointError, match="keyed by text or whole numbers"):
        pack({"outer": {key: 1}})


def test_no_pickle_is_ever_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a pickle")

    for module, names in (
        (pickle, ("loads", "load", "dumps", "dump", "Unpickler", "Pickler")),
        (torch, ("load", "save")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, STATE)
    state, problems = checkpoints.newest()
    assert identical(state, STATE)
    assert problems == []
    assert b"\x80\x04" not in (tmp_path / "000001.safetensors").read_bytes()[:16]


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "made")
    for number in range(1, 6):
        checkpoints.save(number, {"n": number})
        assert checkpoints.numbers() == list(range(max(1, number - KEPT + 1), number + 1))
    assert checkpoints.newest() == ({"n": 5}, [])
    assert sorted(p.name for p in checkpoints.folder.iterdir()) == ["000004.safetensors", "000005.safetensors"]


def test_a_number_that_is_written_again_replaces_its_file_and_drops_newer_ones(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for number in (1, 2, 3):
        checkpoints.save(number, {"n": number})
    checkpoints.save(2, {"n": "again"})
    assert checkpoints.numbers() == [2]
    assert checkpoints.newest() == ({"n": "again"}, [])


def test_a_damaged_newest_checkpoint_is_passed_over_and_the_reason_is_told(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for number in (1, 2):
        checkpoints.save(number, {"n": number, "t": torch.ones(3)})
    newest = tmp_path / "000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-2])
    state, problems = checkpoints.newest()
    assert state is not None
    assert state["n"] == 1
    assert len(problems) == 1
    assert "000002.safetensors" in problems[0]
    assert "cannot be read" in problems[0]
    checkpoints.save(2, {"n": 2})
    assert checkpoints.newest() == ({"n": 2}, [])


def test_without_a_whole_checkpoint_there_is_none_and_every_reason_is_told(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest() == (None, [])
    assert Checkpoints(tmp_path / "none").newest() == (None, [])
    for number in (1, 2):
        (tmp_path / f"{number:06d}.safetensors").write_bytes(b"damage")
    state, problems = checkpoints.newest()
    assert state is None
    assert ["000002" in problems[0], "000001" in problems[1]] == [True, True]


def test_leftovers_of_a_killed_writer_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    checkpoints = RunDirectory(tmp_path).checkpoints
    checkpoints.save(1, {"n": 1})
    (checkpoints.folder / ".000002.safetensors.77.tmp").write_bytes(b"half")
    (checkpoints.folder / "notes.safetensors").write_bytes(b"mine")
    with RunDirectory(tmp_path).locked():  # who only reads removes nothing: another process may be writing
        assert checkpoints.newest() == ({"n": 1}, [])
    assert sorted(p.name for p in checkpoints.folder.iterdir()) == ["000001.safetensors", "notes.safetensors"]


def test_a_save_that_fails_midway_leaves_the_checkpoint_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"n": 1})
    checkpoints.save(2, {"n": 2})

    def fail(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    for number in (2, 3):
        with pytest.raises(OSError, match="no space"):
            checkpoints.save(number, {"n": "new"})
    assert checkpoints.newest() == ({"n": 2}, [])
    assert checkpoints.numbers() == [1, 2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000001.safetensors", "000002.safetensors"]
