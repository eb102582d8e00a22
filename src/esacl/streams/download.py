"""Downloads the official archives: resumes what broke off, and keeps only what has the official checksum."""

import errno
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from esacl.errors import ConfigError, DataError
from esacl.streams.images import Progress
from esacl.streams.locate import data_folder
from esacl.streams.official import Official, official
from esacl.streams.verify import is_official, remember, wrong_digest

_SILENCE = 30.0  # seconds without a byte after which a connection is given up
_CHUNK = 1 << 18
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # answers after which another attempt makes sense
_AGAIN = "Repeating the command resumes the download."


def get(
    name: str, data_dir: str | Path | None = None, *, progress: Progress | None = None, url: str | None = None
) -> Path:
    """The official archive called `name`, downloaded unless it is already there and whole."""
    data = official(name)
    return Download(data, data_folder(data_dir), url or data.url, progress).run()


class _StaysEncrypted(urllib.request.HTTPRedirectHandler):
    """Follows a server elsewhere, but not from https to an address that anyone on the way can change."""

    def redirect_request(self, req: urllib.request.Request, *found: Any) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not str(found[-1]).startswith("https:"):
            raise DataError(
                f"{req.full_url} leads to {found[-1]}, which is not encrypted. Check the address, or give that one "
                f"with --url if you trust the network."
            )
        return super().redirect_request(req, *found)


class _Dropped(Exception):
    """A failure that another attempt may mend."""


@dataclass(slots=True)
class Download:
    """One archive on its way to a folder; what has arrived so far is in `<archive>.part`."""

    data: Official
    folder: Path
    url: str
    progress: Progress | None = None
    pauses: Sequence[float] = (1.0, 3.0, 10.0)  # seconds before each new attempt; bytes that arrive start them anew
    _etag: str | None = field(default=None, init=False)

    @property
    def target(self) -> Path:
        """Where the whole archive will be."""
        return self.folder / self.data.archive

    @property
    def part(self) -> Path:
        """Where it grows."""
        return self.folder / f"{self.data.archive}.part"

    def run(self) -> Path:
        """Download and verify; only a whole archive gets its name."""
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"{self.url!r} is not an address to download from. Allowed: http:// and https://.")
        if self._is_there():
            return self.target
        lock = Path(f"{self.part}.lock")
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with FileLock(lock, timeout=0):
                    if not self._is_there():
                        self._fetch()
                        self._verify()
                        self._name()
            except Timeout:
                raise DataError(f"another process is downloading {self.data.archive}: wait until it is done.") from None
        with suppress(OSError):
            lock.unlink()
        return self.target

    def _is_there(self) -> bool:
        if not self.target.exists():
            return False
        size = self.target.stat().st_size
        if size != self.data.size or not is_official(self.target, self.data):
            wrong = f"{size} bytes instead of {self.data.size}" if size != self.data.size else "another checksum"
            raise DataError(
                f"{str(self.target)!r} exists but is not the official archive ({wrong}). "
                "Move or delete it, then repeat the command."
            )
        return True

    def _fetch(self) -> None:
        """Attempts, until the part has the official size."""
        pauses = iter(self.pauses)
        while (before := self._size()) != self.data.size:
            try:
                self._attempt(before if before < self.data.size else 0)
            except _Dropped as error:
                if self._size() > before:
                    pauses = iter(self.pauses)
                pause = next(pauses, None)
                if pause is None:
                    raise DataError(f"the download of {self.url} failed: {error}. {_AGAIN}") from None
                time.sleep(pause)

    def _attempt(self, have: int) -> None:
        with self._request(have) as response:
            resumed = response.status == 206
            self._check_offer(response, have)
            self._etag = response.headers.get("ETag")
            arrived = have if resumed else 0  # a server without ranges sends everything anew
            with self.part.open("ab" if resumed else "wb") as file:
                while arrived < self.data.size:
                    block = self._block(response, min(_CHUNK, self.data.size - arrived))
                    if not block:
                        raise _Dropped(f"the connection closed after {arrived} of {self.data.size} bytes")
                    file.write(block)
                    arrived += len(block)
                    if self.progress is not None:
                        self.progress(arrived, self.data.size)
                file.flush()
                os.fsync(file.fileno())

    def _request(self, have: int) -> http.client.HTTPResponse:
        headers = {"User-Agent": "esacl", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self._etag and not self._etag.startswith("W/"):
                headers["If-Range"] = self._etag  # a file that changed meanwhile is sent whole
        try:
            opener = urllib.request.build_opener(_StaysEncrypted())
            response: http.client.HTTPResponse = opener.open(
                urllib.request.Request(self.url, headers=headers), timeout=_SILENCE
            )
            return response
        except urllib.error.HTTPError as error:
            answer = f"the server answered {error.code} {error.reason}"
            if error.code == 416:  # what has arrived is not the beginning of what the server has
                self.part.unlink(missing_ok=True)
            elif error.code not in _BUSY:
                raise DataError(f"the download of {self.url} failed: {answer}. Check the address.") from None
            raise _Dropped(answer) from None
        except (OSError, http.client.HTTPException) as error:
            raise _Dropped(_reason(error)) from None

    def _check_offer(self, response: http.client.HTTPResponse, have: int) -> None:
        """That the server's file has the official size and continues where the part ends."""
        if response.status == 206:
            span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
            if span.partition("-")[0] != str(have):
                self.part.unlink(missing_ok=True)
                raise _Dropped("the server continued at another place than asked")
        else:
            total = response.headers.get("Content-Length", "*")
        if total not in ("*", str(self.data.size)):
            raise DataError(
                f"{self.url} offers {total} bytes, but the official archive has {self.data.size}. "
                f"Check the address, or download {self.data.archive} by other means."
            )

    def _block(self, response: http.client.HTTPResponse, size: int) -> bytes:
        try:
            return response.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise _Dropped(_reason(error)) from None

    def _verify(self) -> None:
        wrong = wrong_digest(self.part, self.data)
        if wrong is not None:
            self.part.unlink()
            raise DataError(
                f"the download of {self.url} does not have the official checksum ({wrong}) and was deleted. Repeat the "
                f"command to download it anew."
            )

    def _name(self) -> None:
        self.part.replace(self.target)
        if os.name == "posix":  # make the new name as durable as the bytes
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        remember(self.target, self.data)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "Free some space" if full else "Choose another --data-dir"
            raise DataError(
                f"cannot write to {str(self.folder)!r}: {error.strerror or error}. {remedy}. {_AGAIN}"
            ) from None


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    return (str(cause).splitlines() or [type(cause).__name__])[0]
