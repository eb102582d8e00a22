import os
from pathlib import Path

import pytest

from esacl.files import Folder, remove_leftovers, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("data", "stored"), [(b"\x00\xff", b"\x00\xff"), ("grün\n", "grün\n".encode()), (b"", b"")])
def test_a_file_is_replaced_by_exactly_what_was_given(tmp_path: Path, data: bytes | str, stored: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old and longer")
    write_atomic(path, data)
    assert path.read_bytes() == stored
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_midway_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="no space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_data_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    seen: list[tuple[bool, list[int]]] = []
    true_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append((path.exists(), [p.stat().st_size for p in tmp_path.glob(".*.tmp")]))
        true_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomic(path, b"12345")
    assert seen[0] == (False, [5])
    if os.name == "posix":
        assert seen[1:] == [(True, [])]


def test_leftovers_of_a_killed_writer_are_removed_and_nothing_else(tmp_path: Path) -> None:
    left = [".a.txt.123.tmp", ".a.txt.0123456789abcdef.tmp"]
    others = [".b.txt.123.tmp", ".draft.tmp", ".hidden", "a.txt", "b.tmp"]
    for name in (*left, *others):
        (tmp_path / name).write_text("x")
    remove_leftovers(Folder(tmp_path), {"a.txt"}.__contains__)
    assert names(tmp_path) == others


def test_a_folder_that_does_not_exist_has_no_leftovers(tmp_path: Path) -> None:
    remove_leftovers(Folder(tmp_path / "none"), {"a.txt"}.__contains__)
    assert names(tmp_path) == []
