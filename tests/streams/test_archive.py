import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from esacl.errors import DataError
from esacl.streams.archive import open_archive
from tests.streams.layouts import write_folder, write_tar, write_zip

FILES = {"b.txt": b"bee", "a/c.txt": b"sea", "a/ü – 'x'.txt": b"odd", "empty": b""}


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


@pytest.mark.parametrize("form", ["folder", "x.tar", "x.tar.gz", "x.zip"])
def test_every_form_has_the_same_names_and_contents(tmp_path: Path, form: str) -> None:
    if form == "folder":
        path = write_folder(tmp_path, "top", FILES)
    else:
        path = (write_zip if form == "x.zip" else write_tar)(tmp_path / form, "top", FILES)
    with open_archive(path, "top") as archive:
        assert archive.names() == sorted(FILES)
        assert dict(archive.read(["b.txt", "a/c.txt"])) == {"b.txt": b"bee", "a/c.txt": b"sea"}
        assert archive.read_one("a/ü – 'x'.txt") == b"odd"
        with pytest.raises(DataError, match=r"has no top/absent.txt") as error:
            archive.read_one("absent.txt")
        one_line(error)


def test_members_beside_the_top_folder_and_a_leading_dot_are_harmless(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", ".", {"top/a": b"1", "other/b": b"2"})
    assert open_archive(path, "top").names() == ["a"]


@pytest.mark.parametrize("name", ["../evil", "top/../../evil", "/etc/evil", "C:\\evil", "\\evil", "top\\..\\..\\evil"])
@pytest.mark.parametrize("form", ["x.tar", "x.zip"])
def test_names_that_leave_the_archive_are_refused(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / form
    if form == "x.zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(name, b"x")
    else:
        with tarfile.open(path, "w") as tar:
            tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(DataError, match=r"not safe to read.*points outside") as error:
        open_archive(path, "top").names()
    one_line(error)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        member = tarfile.TarInfo("top/a")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(DataError, match="link or a device"):
        open_archive(tmp_path / "x.tar", "top").read_one("a")


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("top/a")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match="link or a device"):
        open_archive(tmp_path / "x.zip", "top")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_links_and_pipes_in_a_folder_are_refused_without_being_opened(tmp_path: Path) -> None:
    top = write_folder(tmp_path, "top", {"a": b"1"})
    (top / "link").symlink_to("/etc/passwd")
    os.mkfifo(top / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(DataError, match="link or a device"):
            open_archive(top, "top").read_one(name)
    with pytest.raises(DataError, match="link or a device"):
        open_archive(top, "top").names()


@pytest.mark.parametrize("keep", [0, 1, 10, 0.5, 0.95, -4])
@pytest.mark.parametrize("form", ["x.tar.gz", "x.zip"])
def test_a_truncated_archive_gives_one_clear_line(tmp_path: Path, form: str, keep: float) -> None:
    noise = {"a": os.urandom(40_000), "b": os.urandom(40_000)}
    path = (write_zip if form == "x.zip" else write_tar)(tmp_path / form, "top", noise)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if 0 < keep < 1 else int(keep)])
    with pytest.raises(DataError, match=r"damaged or incomplete|is incomplete") as error:
        open_archive(path, "top").read_one("a")
    assert form in one_line(error)


def complaint(path: Path) -> str:
    """What is said about the archive; nothing if it is read."""
    try:
        with open_archive(path, "top") as archive:
            archive.read_one("a")
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("form", ["x.tar", "x.tar.gz", "x.zip"])
def test_flipped_bytes_never_show_a_foreign_traceback(tmp_path: Path, form: str) -> None:
    path = (write_zip if form == "x.zip" else write_tar)(tmp_path / form, "top", {"a": b"hello " * 500})
    whole = bytearray(path.read_bytes())
    for place in range(0, len(whole), max(1, len(whole) // 150)):
        damaged = whole.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        assert "\n" not in complaint(path)


def test_a_gzip_with_a_wrong_checksum_is_damaged_even_if_every_file_was_found(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar.gz", "top", {"a": b"hello"})
    whole = bytearray(path.read_bytes())
    whole[-6] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(DataError, match="damaged or incomplete: CRC"):
        open_archive(path, "top").read_one("a")


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESACL_MAX_BYTES", "100000")
    with gzip.open(tmp_path / "x.tar.gz", "wb") as file:
        file.write(write_tar(tmp_path / "x.tar", "top", {"a": bytes(200_000)}).read_bytes())
    for path in (tmp_path / "x.tar.gz", write_zip(tmp_path / "x.zip", "top", {"a": bytes(200_000)})):
        with pytest.raises(DataError, match="unpacks to more than"):
            open_archive(path, "top").read_one("a")


def test_an_encrypted_zip_gives_one_clear_line(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", "top", {"a": b"x"})
    raw = bytearray(path.read_bytes())
    raw[6] |= 1  # the flag of the local header
    raw[raw.index(b"PK\x01\x02") + 8] |= 1  # and of the directory
    path.write_bytes(raw)
    with pytest.raises(DataError, match="damaged or incomplete") as error:
        open_archive(path, "top").read_one("a")
    one_line(error)


def test_a_tar_without_gzip_may_bear_the_gzipped_name(tmp_path: Path) -> None:
    plain = io.BytesIO(write_tar(tmp_path / "x.tar", "top", {"a": b"1"}).read_bytes())
    (tmp_path / "x.tar.gz").write_bytes(plain.getvalue())
    assert open_archive(tmp_path / "x.tar.gz", "top").read_one("a") == b"1"
