"""What a worker of a cluster does: train one run in a folder of its own, and send to the client what is saved."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from typing import Any
from uuid import uuid4

from esacl.artifacts import RunDirectory
from esacl.config import Config
from esacl.grid.run_files import so_far, unpack, whole
from esacl.grid.train import open_run, steps
from esacl.training.events import TaskDone
from esacl.version import __version__

MAILBOX = 8
"""Messages that may wait for the client; a worker that has more to say waits with them."""

PATIENCE = 300
"""Seconds that a worker waits for its client before it gives up."""

LOOK = 2.0
"""Seconds of waiting after which a worker looks whether its client is still there."""

CHEAP = 20
"""An epoch is sent when training took this many times longer than the last sending; the end of a task always is."""

_ALONE = Lock()  # runs set the threads of their process: a worker of several threads trains one run after the other


class Unwanted(Exception):
    """Nobody waits for this run any more."""


class Post:
    """The worker's side of the conversation: one start of one run, told apart from others by its token."""

    def __init__(self, grid: str, run: int) -> None:
        from distributed import Queue, get_worker

        self._worker = get_worker()
        self._key = self._worker.get_current_task()
        self._run, self._token = run, uuid4().hex
        self._answers = Queue(f"{grid}-{self._token}")  # before the question, or the answer has no place to wait
        self._mail = Queue(f"{grid}-mail", maxsize=MAILBOX)
        self.scratch = Path(self._worker.local_directory)

    def ask(self) -> dict[str, Any] | None:
        """The run and the newest that the client has of it; None where there is nothing to do."""
        self.send("ask", worker=self._worker.address, version=__version__)
        job: dict[str, Any] | None = self._waited(self._answers.get)
        return job

    def send(self, kind: str, **content: Any) -> None:
        """Tell the client something."""
        message = {"kind": kind, "run": self._run, "token": self._token, **content}
        self._waited(partial(self._mail.put, message))

    def _waited(self, talk: Callable[..., Any]) -> Any:
        """Wait for the client, but not for one that was killed: the worker is needed."""
        until = perf_counter() + PATIENCE
        while True:
            try:
                return talk(timeout=LOOK)
            except TimeoutError:
                self.check_wanted()
                if perf_counter() > until:
                    raise

    def check_wanted(self) -> None:
        """Stop where the client has gone or has given the run to another worker."""
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state != "executing":
            raise Unwanted

    def close(self) -> None:
        """Leave nothing behind at the scheduler."""
        self._answers.close()
        self._mail.close()


def train(grid: str, run: int) -> None:
    """Bring a run to its end, from the newest state that the client has; everything that comes of it is sent."""
    with _ALONE:
        post = Post(grid, run)
        try:
            job = post.ask()
            if job is not None:
                with TemporaryDirectory(prefix="run-", dir=post.scratch) as folder:
                    _complete(Path(folder) / job["name"], job, post)
        finally:
            post.close()


def _complete(path: Path, job: dict[str, Any], post: Post) -> None:
    """Train the run in its directory and send it."""
    path.mkdir()
    directory = RunDirectory(path)
    unpack(job["files"], directory)
    with open_run(directory, Config.from_mapping(job["settings"]), job["code"]) as run:
        pace = Pace()
        for step in steps(run, job["stop_at_chance"], post.check_wanted):
            if step.stopped:
                post.send("stopped", files=None, reason=step.stopped)
                return
            due = step.saved is not None and pace.due(isinstance(step.saved, TaskDone))
            began = perf_counter()
            files = so_far(directory) if due else None
            post.send("progress", share=step.share, words=step.words, notes=step.notes, files=files)
            if due:
                pace.sent(perf_counter() - began)
        post.send("done", files=whole(directory))


class Pace:
    """Decides which epochs are worth sending: about a twentieth of the time at most goes into it."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._cost = 0.0
        self._last = clock()

    def due(self, always: bool) -> bool:
        """Whether to send now."""
        return always or self._clock() - self._last >= CHEAP * self._cost

    def sent(self, seconds: float) -> None:
        """What the last sending cost."""
        self._cost, self._last = seconds, self._clock()
