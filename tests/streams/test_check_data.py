import json
import os
from dataclasses import replace
from hashlib import md5, sha256
from pathlib import Path

import pytest

from esacl.config import StreamConfig
from esacl.errors import DataError
from esacl.streams import Report, check, open_stream, verify
from esacl.streams import official as official_module
from esacl.streams.official import official
from tests.streams.layouts import cifar10_files, cifar100_files, tiny_files, write_folder, write_tar, write_zip

CIFAR10, CIFAR100, TINY = official("cifar10"), official("cifar100"), official("tinyimagenet")


def reports(folder: Path) -> dict[str, Report]:
    return {report.name: report for report in check(folder)}


@pytest.fixture
def made_official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small archive that is taken for the official CIFAR-10."""
    path = write_tar(tmp_path / CIFAR10.archive, CIFAR10.folder, cifar10_files())
    whole = path.read_bytes()
    monkeypatch.setitem(
        official_module.OFFICIAL,
        "cifar10",
        replace(CIFAR10, size=len(whole), md5=md5(whole).hexdigest(), sha256=sha256(whole).hexdigest()),
    )
    return path


def test_what_is_missing_says_where_it_was_sought_and_what_to_run(tmp_path: Path) -> None:
    for report, data in zip(check(tmp_path / "no where"), (CIFAR10, CIFAR100, TINY), strict=True):
        assert report.state == "missing"
        assert report.path == str(tmp_path / "no where")
        assert report.command == f"esacl data get {data.name} --data-dir '{tmp_path / 'no where'}'"
        for part in (data.archive, data.url, report.command):
            assert part in report.detail


def test_a_whole_official_archive_is_verified_by_its_checksum(made_official: Path) -> None:
    report = reports(made_official.parent)["cifar10"]
    assert (report.state, report.form, report.path) == ("official", "archive", str(made_official))
    assert (report.classes, report.train_per_class, report.test_per_class) == (10, (5000, 5000), (1000, 1000))


def test_a_subset_is_counted_and_its_checksums_reported(tmp_path: Path) -> None:
    path = write_tar(tmp_path / CIFAR10.archive, CIFAR10.folder, cifar10_files())
    write_folder(tmp_path, CIFAR100.folder, cifar100_files())
    write_zip(tmp_path / TINY.archive, TINY.folder, tiny_files())
    found = reports(tmp_path)
    assert {report.state for report in found.values()} == {"other"}
    report = found["cifar10"]
    assert (report.classes, report.train_per_class, report.test_per_class) == (10, (6, 6), (2, 2))
    assert report.sha256 == sha256(path.read_bytes()).hexdigest()
    assert report.md5 == md5(path.read_bytes()).hexdigest()
    assert "fewer images than the official set" in report.detail
    assert (found["cifar100"].form, found["cifar100"].sha256) == ("unpacked", None)
    assert (found["tinyimagenet"].train_per_class, found["tinyimagenet"].test_per_class) == ((4, 4), (1, 1))


def test_what_is_damaged_says_why(tmp_path: Path) -> None:
    path = write_tar(tmp_path / CIFAR10.archive, CIFAR10.folder, cifar10_files())
    path.write_bytes(path.read_bytes()[:1000])
    report = reports(tmp_path)["cifar10"]
    assert report.state == "damaged"
    assert "damaged or incomplete" in report.detail
    assert "\n" not in report.detail


def test_an_archive_of_official_size_with_another_checksum_is_an_error(made_official: Path) -> None:
    whole = bytearray(made_official.read_bytes())
    whole[4] ^= 1  # gzip's time of writing: everything still unpacks
    made_official.write_bytes(whole)
    with pytest.raises(DataError, match=r"is damaged: it has md5 .*Delete that file and run `esacl data get cifar10"):
        open_stream(StreamConfig("split-cifar10", data_dir=str(made_official.parent)), 0)
    assert reports(made_official.parent)["cifar10"].state == "damaged"


def test_an_archive_with_the_right_md5_and_another_sha256_is_an_error(
    made_official: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = replace(official_module.OFFICIAL["cifar10"], sha256="0" * 64)
    monkeypatch.setitem(official_module.OFFICIAL, "cifar10", forged)
    with pytest.raises(DataError, match=r"is damaged: it has sha256 .* instead of 0000"):
        open_stream(StreamConfig("split-cifar10", data_dir=str(made_official.parent)), 0)


def test_every_official_archive_has_both_checksums() -> None:
    for data in official_module.OFFICIAL.values():
        assert [len(bytes.fromhex(text)) for text in (data.md5, data.sha256)] == [16, 32]


def test_a_verified_archive_is_hashed_once_until_it_changes(
    made_official: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []
    digests = verify._digests
    monkeypatch.setattr(verify, "_digests", lambda path, *names: hashed.append(path) or digests(path, *names))
    config = StreamConfig("split-cifar10", data_dir=str(made_official.parent))
    for _ in range(3):
        open_stream(config, 0)
    assert hashed == [made_official]
    os.utime(made_official, ns=(1, 1))
    open_stream(config, 0)
    assert len(hashed) == 2


@pytest.mark.parametrize("text", ["", "[]", "{broken", json.dumps({CIFAR10.archive: None})])
def test_an_unreadable_memory_of_checksums_is_ignored(made_official: Path, text: str) -> None:
    (made_official.parent / verify.MEMORY).write_text(text)
    assert reports(made_official.parent)["cifar10"].state == "official"


def test_a_record_that_came_with_an_archive_is_not_believed(
    made_official: Path,
) -> None:
    assert reports(made_official.parent)["cifar10"].state == "official"
    before = made_official.stat()
    data = bytearray(made_official.read_bytes())
    data[len(data) // 2] ^= 1
    made_official.write_bytes(bytes(data))
    os.utime(made_official, ns=(before.st_atime_ns, before.st_mtime_ns))  # same size, same time of change
    assert reports(made_official.parent)["cifar10"].state == "damaged"


def test_a_folder_that_cannot_be_written_is_verified_each_time(
    made_official: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(verify, "write_atomic", refuse)
    for _ in range(2):
        assert reports(made_official.parent)["cifar10"].state == "official"
    assert not (made_official.parent / verify.MEMORY).exists()
