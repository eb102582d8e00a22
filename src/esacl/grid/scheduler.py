"""A grid on a cluster without a shared disk, the client: hand out runs, keep what workers send, replace dead ones.

A task of the cluster carries no state. Whoever starts one, also dask by itself after a worker died, asks the client
for the newest checkpoint first; so nothing is repeated that has arrived, and a run that is finished is not begun again.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esacl.artifacts import RunDirectory
from esacl.errors import Diverged, EsaclError, RunError
from esacl.grid.events import GridEvent, RunFailed, RunFinished, RunNote, RunProgress, RunStopped, ended
from esacl.grid.plan import ENDED, Cell
from esacl.grid.run_files import to_continue, unpack
from esacl.grid.scheduler_worker import MAILBOX, train
from esacl.grid.train import why
from esacl.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future

ATTEMPTS = 3
"""Starts of a run in a row that bring nothing new before it is given up."""

POLL = (0.05, 1.0)
"""Seconds between two looks into an empty mailbox: at first, and after a long silence. Looking is not free."""


@dataclass(slots=True)
class _Open:
    """A run that has not ended: its task, who works on it, how often that was in vain, and the lock while it is on."""

    cell: Cell
    directory: RunDirectory
    future: "Future"
    token: str = ""
    fruitless: int = 0
    held: ExitStack = field(default_factory=ExitStack)


class ClusterGrid:
    """Brings runs to their end on a cluster. Iterate over `events()`."""

    def __init__(self, client: "Client", cells: Sequence[Cell]) -> None:
        self._client = client
        self._grid = f"esacl-{uuid4().hex}"
        self._cells = cells
        self._open: dict[int, _Open] = {}

    def events(self) -> Generator[GridEvent, None, None]:
        """Hand out every run and tell what becomes of it; ends when none is left."""
        from distributed import Queue

        mail = Queue(f"{self._grid}-mail", client=self._client, maxsize=MAILBOX)
        try:
            for number, cell in enumerate(self._cells):
                self._open[number] = _Open(cell, cell.directory, self._submit(number))
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
            for run in self._open.values():
                run.held.close()
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

    def _take(self, message: dict[str, Any]) -> Iterator[GridEvent]:
        """Answer a question, or keep what was sent; words of a start that was given up are not heard."""
        run = self._open.get(message["run"])
        if message["kind"] == "ask":
            yield from self._answer(run, message)
        elif run is not None and run.token == message["token"]:
            try:
                yield from self._keep(run, message)
            except EsaclError as error:
                yield self._fail(run, str(error))

    def _answer(self, run: _Open | None, message: dict[str, Any]) -> Iterator[GridEvent]:
        """Tell a worker what to do: the run and the newest that is there of it, or nothing."""
        job: dict[str, Any] | None = None
        if run is not None:
            try:
                job = self._job(run, message)
                if job is None:
                    self._close(run)
                    yield ended(run.cell)
                elif run.token:
                    yield RunNote(run.cell, f"its worker died; {message['worker']} goes on with what had arrived.")
                run.token, run.fruitless = message["token"], run.fruitless + 1
            except EsaclError as error:
                yield self._fail(run, str(error))
        from distributed import Queue

        answers = Queue(f"{self._grid}-{message['token']}", client=self._client)
        answers.put(job)
        answers.close()

    def _job(self, run: _Open, message: dict[str, Any]) -> dict[str, Any] | None:
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
        if not run.token:
            run.held.enter_context(run.directory.locked())
        if cell.claim(run.directory) in ENDED:  # by another command
            return None
        return {
            "name": cell.path.name,
            "settings": cell.config().to_mapping(),
            "code": list(cell.point.code),
            "stop_at_chance": cell.point.stop_at_chance,
            "files": to_continue(run.directory),
        }

    def _keep(self, run: _Open, message: dict[str, Any]) -> Iterator[GridEvent]:
        """Write what a worker sent; a run is finished when all of it is here."""
        cell = run.cell
        if message["files"]:
            unpack(message["files"], run.directory)
            run.fruitless = 0
        if message["kind"] == "done":
            self._close(run)
            yield RunFinished(cell)
        elif message["kind"] == "stopped":
            self._close(run)
            cell.stop(message["reason"])
            yield RunStopped(cell, message["reason"])
        else:
            yield from (RunNote(cell, text) for text in message["notes"])
            yield RunProgress(cell, message["share"], message["words"])

    def _look(self, silent: bool) -> Iterator[GridEvent]:
        """Deal with tasks that ended without a finished run; while messages wait, an end may be among them."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        out_of_reach = (KilledWorker, CommClosedError, TimeoutError)
        for number, run in list(self._open.items()):
            status = run.future.status
            error = run.future.exception() if status == "error" else None
            if error is not None and not isinstance(error, out_of_reach):
                told = error.with_traceback(run.future.traceback())
                yield self._fail(run, *why(told), diverged=isinstance(error, Diverged))
            elif status != "pending" and silent:
                if run.fruitless >= ATTEMPTS:
                    yield self._fail(
                        run, f"its workers are lost again and again ({error or status}). Look at their log."
                    )
                else:
                    run.fruitless, run.future = run.fruitless + 1, self._submit(number)

    def _fail(self, run: _Open, reason: str, trace: str = "", diverged: bool = False) -> RunFailed:
        self._close(run)
        self._client.cancel([run.future])
        return RunFailed(run.cell, run.cell.fail(reason, trace), diverged)

    def _close(self, run: _Open) -> None:
        """Let others have the run."""
        self._open = {number: other for number, other in self._open.items() if other is not run}
        run.held.close()
