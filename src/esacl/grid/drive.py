"""The client's side of a grid: hand out runs, keep what workers send, and hand out again what a dead worker had.

A task of the cluster carries no state. Whoever starts one, also dask by itself after a worker died, asks the client
for the newest checkpoint first; so nothing is repeated that has arrived, and a run that is finished is not begun again.
"""

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esacl.errors import Diverged, EsaclError, RunError
from esacl.files import write_atomic
from esacl.grid.news import Failed, Finished, News, Noted, Progressed, Stopped
from esacl.grid.parcel import to_continue, unpack
from esacl.grid.plan import Cell
from esacl.grid.work import MAILBOX, train
from esacl.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future

ATTEMPTS = 3
"""Starts of a run in a row that bring nothing new before it is given up."""

POLL = (0.05, 1.0)
"""Seconds between two looks into an empty mailbox: at first, and after a long silence. Looking is not free."""


@dataclass(slots=True)
class _Open:
    """A run that is not finished: its task, who works on it, and how often that was in vain."""

    cell: Cell
    future: "Future"
    token: str = ""
    fruitless: int = 0


class Drive:
    """Brings runs to their end on a cluster. Iterate over `news()`."""

    def __init__(self, client: "Client", cells: Sequence[Cell]) -> None:
        self._client = client
        self._grid = f"esacl-{uuid4().hex}"
        self._cells = cells
        self._open: dict[int, _Open] = {}

    def news(self) -> Iterator[News]:
        """Hand out every run and tell what becomes of it; ends when none is left."""
        from distributed import Queue

        mail = Queue(f"{self._grid}-mail", client=self._client, maxsize=MAILBOX)
        try:
            for number, cell in enumerate(self._cells):
                self._open[number] = _Open(cell, self._submit(number))
            pause = POLL[0]
            while self._open:
                messages = self._receive(mail)
                for message in messages:
                    yield from self._take(message)
                yield from self._look(silent=not messages)
                if messages:
                    pause = POLL[0]
                else:
                    sleep(pause)
                    pause = min(2 * pause, POLL[1])
        finally:
            if self._client.status == "running":
                self._client.cancel([run.future for run in self._open.values()])
                mail.close()

    def _submit(self, number: int) -> "Future":
        name = f"{self._grid}-{number}-{uuid4().hex[:8]}"
        return self._client.submit(train, self._grid, number, key=name, pure=False, priority=-number)

    def _receive(self, mail: Any) -> list[dict[str, Any]]:
        """What workers have sent; asked for at intervals, since a scheduler logs every wait that ends in vain."""
        try:
            messages: list[dict[str, Any]] = mail.get(batch=True)
        except OSError:
            messages = []
        if self._client.status != "running":
            raise RunError(
                "the dask scheduler does not answer any more. What had arrived is kept: start the scheduler again "
                "and repeat the same command to go on."
            )
        return messages

    def _take(self, message: dict[str, Any]) -> Iterator[News]:
        """Answer a question, or keep what was sent; words of a start that was given up are not heard."""
        run = self._open.get(message["run"])
        if message["kind"] == "ask":
            yield from self._answer(run, message)
        elif run is not None and run.token == message["token"]:
            try:
                yield from self._keep(run, message)
            except EsaclError as error:
                yield self._fail(run, str(error))

    def _answer(self, run: _Open | None, message: dict[str, Any]) -> Iterator[News]:
        """Tell a worker what to do: the run and the newest that is there of it, or nothing."""
        job: dict[str, Any] | None = None
        if run is not None:
            try:
                job = self._job(run, message)
                if run.token:
                    yield Noted(run.cell, f"its worker died; {message['worker']} goes on with what had arrived.")
                run.token, run.fruitless = message["token"], run.fruitless + 1
            except EsaclError as error:
                yield self._fail(run, str(error))
        from distributed import Queue

        answers = Queue(f"{self._grid}-{message['token']}", client=self._client)
        answers.put(job)
        answers.close()

    def _job(self, run: _Open, message: dict[str, Any]) -> dict[str, Any]:
        if message["version"] != __version__:
            raise RunError(
                f"worker {message['worker']} has esacl {message['version']}, but this is {__version__}. Install the "
                f"same version on all machines."
            )
        if run.fruitless >= ATTEMPTS:
            raise RunError(
                f"its worker died {run.fruitless} times without a new checkpoint. Look at the log of the workers "
                f"(often there is too little memory), then repeat the command."
            )
        cell = run.cell
        cell.claim()
        return {
            "name": cell.path.name,
            "settings": cell.config().to_mapping(),
            "code": list(cell.point.code),
            "stop_at_chance": cell.point.stop_at_chance,
            "files": to_continue(cell.directory),
        }

    def _keep(self, run: _Open, message: dict[str, Any]) -> Iterator[News]:
        """Write what a worker sent; a run is finished when all of it is here."""
        cell = run.cell
        if message["files"]:
            directory = cell.directory
            with directory.locked():
                unpack(message["files"], directory)
            run.fruitless = 0
        if message["kind"] == "done":
            del self._open[message["run"]]
            yield Finished(cell)
        elif message["kind"] == "stopped":
            del self._open[message["run"]]
            cell.stop(message["reason"])
            yield Stopped(cell, message["reason"])
        else:
            yield from (Noted(cell, text) for text in message["notes"])
            yield Progressed(cell, message["share"], message["words"])

    def _look(self, silent: bool) -> Iterator[News]:
        """Deal with tasks that ended without a finished run; while messages wait, an end may be among them."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        out_of_reach = (KilledWorker, CommClosedError, TimeoutError)
        for number, run in list(self._open.items()):
            status = run.future.status
            error = run.future.exception() if status == "error" else None
            if error is not None and not isinstance(error, out_of_reach):
                yield self._fail(run, self._reason(run, error), isinstance(error, Diverged))
            elif status != "pending" and silent:
                if run.fruitless >= ATTEMPTS:
                    yield self._fail(
                        run, f"its workers are lost again and again ({error or status}). Look at their log."
                    )
                else:
                    run.fruitless, run.future = run.fruitless + 1, self._submit(number)

    def _reason(self, run: _Open, error: BaseException) -> str:
        """Why a run failed, in one message; what only a developer can read goes into a file beside it."""
        if isinstance(error, EsaclError):
            return str(error)
        log = run.cell.beside("log")
        log.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(log, "".join(traceback.format_exception(error.with_traceback(run.future.traceback()))))
        return f"{type(error).__name__}: {error} (all of it is in {log})"

    def _fail(self, run: _Open, reason: str, diverged: bool = False) -> Failed:
        self._open = {number: other for number, other in self._open.items() if other is not run}
        self._client.cancel([run.future])
        run.cell.fail(reason)
        return Failed(run.cell, reason, diverged)
