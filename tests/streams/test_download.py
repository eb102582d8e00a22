import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import md5, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from esacl.errors import ConfigError, DataError
from esacl.streams import download as download_module
from esacl.streams import get, verify
from esacl.streams import official as official_module
from esacl.streams.download import Download
from esacl.streams.official import Official, official

CONTENT = np.random.default_rng(0).bytes(700_000)
DATA = replace(official("cifar10"), size=len(CONTENT), md5=md5(CONTENT).hexdigest(), sha256=sha256(CONTENT).hexdigest())


@dataclass
class Site:
    """A server on loopback with one file and some bad habits."""

    url: str = ""
    content: bytes = CONTENT
    ranges: bool = True
    drops: list[int] = field(default_factory=list)  # bytes sent before the connection is cut, one for each request
    statuses: list[int] = field(default_factory=list)  # errors to answer first
    shift: int = 0  # how far off a continued answer starts
    requests: list[dict[str, str]] = field(default_factory=list)  # headers as received
    sent: int = 0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(dict(handler.headers.items()))
        wanted = handler.headers.get("Range")
        if self.statuses:
            handler.send_error(self.statuses.pop(0))
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        if start >= len(self.content) and wanted:
            handler.send_error(416)
            return
        body = self.content[start:]
        handler.send_response(206 if wanted and self.ranges else 200)
        if wanted and self.ranges:
            last = len(self.content) - 1
            handler.send_header("Content-Range", f"bytes {start + self.shift}-{last}/{len(self.content)}")
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("ETag", '"v1"')
        handler.end_headers()
        body = body[: self.drops.pop(0)] if self.drops else body
        handler.wfile.write(body)
        self.sent += len(body)
        handler.close_connection = True


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}/{DATA.archive}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(site: Site, folder: Path, data: Official = DATA, attempts: int = 4) -> Path:
    return Download(data, folder, site.url, pauses=(0.0,) * (attempts - 1)).run()


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_download_is_whole_and_leaves_nothing_else_behind(site: Site, tmp_path: Path) -> None:
    path = fetch(site, tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert {file.name for file in path.parent.iterdir()} == {DATA.archive, verify.MEMORY}
    assert "Range" not in site.requests[0]


def test_progress_is_reported_in_bytes(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    Download(DATA, tmp_path, site.url, lambda done, total: seen.append((done, total))).run()
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_a_dropped_connection_is_resumed_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.drops = [300_000, 100_000]
    assert fetch(site, tmp_path).read_bytes() == CONTENT
    assert [request.get("Range") for request in site.requests] == [None, "bytes=300000-", "bytes=400000-"]
    assert site.requests[1]["If-Range"] == '"v1"'
    assert site.sent == len(CONTENT)  # not a byte twice


def test_repeating_the_command_resumes(site: Site, tmp_path: Path) -> None:
    site.drops = [300_000]
    with pytest.raises(
        DataError, match=r"closed after 300000 of 700000 bytes\. Repeating the command resumes"
    ) as error:
        fetch(site, tmp_path, attempts=1)
    one_line(error)
    assert (tmp_path / f"{DATA.archive}.part").stat().st_size == 300_000
    assert not (tmp_path / DATA.archive).exists()
    assert fetch(site, tmp_path).read_bytes() == CONTENT
    assert site.requests[1]["Range"] == "bytes=300000-"
    assert site.sent == len(CONTENT)


def test_bytes_that_arrive_start_the_attempts_anew(site: Site, tmp_path: Path) -> None:
    site.drops = [50_000] * 10
    assert fetch(site, tmp_path, attempts=2).read_bytes() == CONTENT
    assert len(site.requests) == 11


def test_a_server_without_ranges_sends_everything_anew(site: Site, tmp_path: Path) -> None:
    site.ranges, site.drops = False, [300_000]
    assert fetch(site, tmp_path).read_bytes() == CONTENT
    assert site.sent == len(CONTENT) + 300_000


def test_a_complete_part_is_verified_without_a_request(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{DATA.archive}.part").write_bytes(CONTENT)
    assert fetch(site, tmp_path).read_bytes() == CONTENT
    assert site.requests == []


def test_a_part_that_is_too_long_is_started_anew(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{DATA.archive}.part").write_bytes(CONTENT + b"x")
    assert fetch(site, tmp_path).read_bytes() == CONTENT
    assert "Range" not in site.requests[0]


@pytest.mark.parametrize("habit", [{"statuses": [416]}, {"shift": 5}])
def test_a_server_that_cannot_continue_makes_it_start_anew(
    site: Site, tmp_path: Path, habit: dict[str, object]
) -> None:
    (tmp_path / f"{DATA.archive}.part").write_bytes(CONTENT[:1000])
    for name, value in habit.items():
        setattr(site, name, value)
    assert fetch(site, tmp_path).read_bytes() == CONTENT
    assert [request.get("Range") for request in site.requests] == ["bytes=1000-", None]


def test_a_wrong_checksum_deletes_the_download_and_says_so(site: Site, tmp_path: Path) -> None:
    site.content = bytes(len(CONTENT))
    with pytest.raises(DataError, match=r"does not have the official checksum .* was deleted") as error:
        fetch(site, tmp_path)
    one_line(error)
    assert not (tmp_path / f"{DATA.archive}.part").exists()
    assert not (tmp_path / DATA.archive).exists()


def test_a_right_md5_alone_is_not_enough(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"checksum \(sha256 .* was deleted"):
        fetch(site, tmp_path, replace(DATA, sha256="0" * 64))
    assert not (tmp_path / DATA.archive).exists()


def test_a_beginning_of_another_file_is_found_out(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{DATA.archive}.part").write_bytes(bytes(1000))
    with pytest.raises(DataError, match=r"was deleted. Repeat the command"):
        fetch(site, tmp_path)
    assert fetch(site, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("size", [10, len(CONTENT) + 10])
def test_a_file_of_another_size_is_refused_before_it_is_downloaded(site: Site, tmp_path: Path, size: int) -> None:
    site.content = bytes(size)
    with pytest.raises(DataError, match=f"offers {size} bytes, but the official archive has 700000"):
        fetch(site, tmp_path)
    assert not (tmp_path / f"{DATA.archive}.part").exists()


@pytest.mark.parametrize("status", [403, 404, 410])
def test_an_address_without_the_file_fails_at_once(site: Site, tmp_path: Path, status: int) -> None:
    site.statuses = [status] * 9
    with pytest.raises(DataError, match=f"the server answered {status} .* Check the address") as error:
        fetch(site, tmp_path)
    one_line(error)
    assert len(site.requests) == 1


def test_a_busy_server_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 500, 429]
    assert fetch(site, tmp_path).read_bytes() == CONTENT
    site.statuses = [503] * 9
    with pytest.raises(DataError, match=r"answered 503 .*Repeating the command resumes"):
        fetch(site, tmp_path / "again")


def test_no_server_gives_one_clear_line(tmp_path: Path, site: Site) -> None:
    site.url = "http://127.0.0.1:9/none"  # the discard port: nobody listens
    with pytest.raises(DataError, match=r"download of http://127\.0\.0\.1:9/none failed.*Repeating") as error:
        fetch(site, tmp_path)
    one_line(error)


def test_a_whole_archive_is_not_downloaded_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / DATA.archive).write_bytes(CONTENT)
    assert fetch(site, tmp_path) == tmp_path / DATA.archive
    assert site.requests == []


@pytest.mark.parametrize("content", [b"a subset of my own", bytes(len(CONTENT))])
def test_another_file_of_that_name_is_never_overwritten(site: Site, tmp_path: Path, content: bytes) -> None:
    (tmp_path / DATA.archive).write_bytes(content)
    with pytest.raises(DataError, match=r"exists but is not the official archive .* Move or delete it"):
        fetch(site, tmp_path)
    assert (tmp_path / DATA.archive).read_bytes() == content
    assert site.requests == []


def test_a_folder_that_cannot_be_made_gives_one_clear_line(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot write to '.*': Not a directory. Choose another --data-dir") as error:
        fetch(site, tmp_path / "file" / "below")
    one_line(error)


def test_a_full_disk_gives_one_clear_line_and_keeps_the_part(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download_module.os, "fsync", full)
    with pytest.raises(DataError, match=r"No space left on device\. Free some space\. Repeating the command resumes"):
        fetch(site, tmp_path)
    monkeypatch.undo()
    assert fetch(site, tmp_path).read_bytes() == CONTENT


def test_two_downloads_of_one_archive_do_not_mix(site: Site, tmp_path: Path) -> None:
    with FileLock(tmp_path / f"{DATA.archive}.part.lock"), pytest.raises(DataError, match="another process"):
        fetch(site, tmp_path)
    assert fetch(site, tmp_path).read_bytes() == CONTENT


def test_only_web_addresses_are_opened(tmp_path: Path) -> None:
    for url in ("file:///etc/passwd", "ftp://host/x", "cifar"):
        with pytest.raises(ConfigError, match="is not an address to download from"):
            get("cifar10", tmp_path, url=url)


@pytest.mark.parametrize("name", ["cifar10", "split-cifar10"])
def test_get_takes_names_of_data_sets_and_of_streams(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(official_module.OFFICIAL, "cifar10", DATA)
    assert get(name, tmp_path, url=site.url) == tmp_path / DATA.archive


def test_an_unknown_data_set_suggests_a_known_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown data set 'cifar-10'. Did you mean 'cifar10'\?"):
        get("cifar-10", tmp_path)
