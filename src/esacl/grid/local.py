"""A grid on one machine: processes that train runs in their own directories, told what to do by pipes alone.

A run directory locks, saves and resumes by itself. So whoever dies, process or command, costs the time since the last
checkpoint, and several commands share a folder: none trains what another one holds.
"""

import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from time import monotonic
from typing import Any

from esacl.errors import Diverged
from esacl.grid.events import ENDS, GridEvent, RunFailed, RunFinished, RunNote, RunProgress, RunStopped
from esacl.grid.plan import ENDED, Cell
from esacl.grid.signals import held_back
from esacl.grid.train import open_run, steps, why
from esacl.run_lock import Busy

PROCESSES: Any = get_context("spawn")
"""How processes are started: with pipes and nothing inherited. The other ways open a socket, or copy threads."""

ATTEMPTS = 3
"""Starts of a run in a row that save nothing before it is given up."""

POLL = 1.0
"""Seconds between two looks at runs that another command holds."""

Send = Callable[..., None]
"""Tells the command a kind of event and what it says, without the run."""


@dataclass(slots=True)
class _Open:
    """A run that has not ended: what was last saved of it, and how often its process died without more."""

    cell: Cell
    saved: int = 0
    fruitless: int = 0
    waited: bool = False  # whether people know that another command holds it


class _Worker:
    """A process that trains one run after the other."""

    def __init__(self) -> None:
        jobs, self.jobs = PROCESSES.Pipe(duplex=False)
        self.events, events = PROCESSES.Pipe(duplex=False)
        self.process = PROCESSES.Process(target=serve, args=(jobs, events))
        self.process.start()
        for end in (jobs, events):
            end.close()  # held by the process alone, so that reading ends when it does
        self.run: _Open | None = None


class LocalGrid:
    """Brings runs to their end with processes of this machine. Iterate over `events()`."""

    def __init__(self, cells: Sequence[Cell], jobs: int) -> None:
        self._jobs = jobs
        self._waiting = deque(map(_Open, cells))
        self._elsewhere: list[_Open] = []
        self._look = 0.0
        self._workers: list[_Worker] = []

    def events(self) -> Generator[GridEvent, None, None]:
        """Hand out every run and tell what becomes of it; ends when none is left, and with it the processes."""
        try:
            while self._waiting or self._elsewhere or any(worker.run for worker in self._workers):
                self._hand_out()
                busy = {worker.events: worker for worker in self._workers if worker.run}
                for ready in wait(list(busy), POLL if self._elsewhere else None):
                    yield from self._hear(busy[ready])
        finally:
            for worker in self._workers:
                worker.process.kill()
            for worker in self._workers:
                worker.process.join()

    def _hand_out(self) -> None:
        """Give a run to every process that has none; those that another command holds come last, and now and then."""
        if self._elsewhere and not self._waiting and monotonic() >= self._look:
            self._waiting.extend(self._elsewhere)
            self._elsewhere.clear()
            self._look = monotonic() + POLL
        while self._waiting:
            idle = next((worker for worker in self._workers if worker.run is None), None)
            if idle is None and len(self._workers) == self._jobs:
                return
            if idle is None:
                with held_back():
                    self._workers.append(idle := _Worker())
            idle.run = self._waiting.popleft()
            try:
                idle.jobs.send(idle.run.cell)
            except OSError:  # it has died, as its other pipe will tell
                return

    def _hear(self, worker: _Worker) -> Iterator[GridEvent]:
        """What a process says of its run."""
        run = worker.run
        assert run is not None
        try:
            kind, *content = worker.events.recv()
        except (EOFError, OSError):
            yield from self._lost(worker, run)
            return
        if kind is Busy or issubclass(kind, ENDS):
            worker.run = None
        if kind is Busy:
            self._elsewhere.append(run)
            if not run.waited:
                run.waited = True
                yield RunNote(run.cell, "another process is training it; this command waits for it.")
        elif kind is RunFailed:
            reason, trace, diverged = content
            yield RunFailed(run.cell, run.cell.fail(reason, trace), diverged)
        else:
            if kind is RunStopped:
                run.cell.stop(*content)
            yield kind(run.cell, *content)

    def _lost(self, worker: _Worker, run: _Open) -> Iterator[GridEvent]:
        """Give the run of a dead process to another, unless that was in vain too often."""
        self._workers.remove(worker)
        worker.process.join()
        code, saved = worker.process.exitcode, max(run.cell.directory.checkpoints.numbers(), default=0)
        run.fruitless = 1 if saved > run.saved else run.fruitless + 1
        run.saved = saved
        if run.fruitless < ATTEMPTS:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            yield RunNote(run.cell, f"its process {how}; another goes on with what was saved.")
            self._waiting.appendleft(run)
        else:
            reason = f"its process died {ATTEMPTS} times without a new checkpoint (often there is too little memory)."
            yield RunFailed(run.cell, run.cell.fail(reason))


def serve(jobs: "Connection[Any, Any]", events: "Connection[Any, Any]") -> None:
    """What a process does: train the runs that it is given, until nobody gives any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # the command alone writes results
    Thread(target=_leave_with_the_command, daemon=True).start()
    while True:
        try:
            cell = jobs.recv()
        except EOFError:
            return
        try:
            _train(cell, lambda *told: events.send(told))
        except Busy:
            events.send((Busy,))
        except Exception as error:
            events.send((RunFailed, *why(error), isinstance(error, Diverged)))
        gc.collect()  # before the next run asks for memory


def _leave_with_the_command() -> None:
    """Wait until the command has ended, however it did."""
    command = parent_process()
    assert command is not None
    command.join()
    os._exit(1)


def _train(cell: Cell, send: Send) -> None:
    """Bring a run to its end in its directory, unless another command has."""
    directory = cell.directory
    with directory.locked():
        if cell.claim(directory) not in ENDED:
            with open_run(directory, cell.config(), cell.point.code) as run:
                for step in steps(run, cell.point.stop_at_chance):
                    for note in step.notes:
                        send(RunNote, note)
                    send(RunProgress, step.share, step.words)
                    if step.stopped:
                        send(RunStopped, step.stopped)
                        return
    stopped = cell.stopped()
    send(RunFinished) if stopped is None else send(RunStopped, stopped)
