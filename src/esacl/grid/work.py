"""What a worker does: train one run in a folder of its own, and send what there is to the client as it goes."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from typing import Any
from uuid import uuid4

from esacl.artifacts import RunDirectory
from esacl.code import is_own
from esacl.config import Config
from esacl.grid.parcel import Parcel, so_far, unpack, whole
from esacl.machine import resolve_machine
from esacl.metrics.seeds import at_chance
from esacl.runner import Run, reopen, start
from esacl.streams import absolute
from esacl.training.events import EpochDone, TaskDone
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
    with _opened(path, Config.from_mapping(job["settings"]), job["files"], job["code"]) as run:
        pace = Pace()
        _tell(post, run, "continued" if job["files"] else "started", None)
        reason = chance_words(run) if job["stop_at_chance"] else ""  # there already, if a worker died on telling it
        for event in () if reason else _watched(run, post):
            due = pace.due(isinstance(event, TaskDone))
            began = perf_counter()
            _tell(post, run, _words(event, run), so_far(run.directory) if due else None)
            if due:
                pace.sent(perf_counter() - began)
            if job["stop_at_chance"] and isinstance(event, TaskDone) and (reason := chance_words(run)):
                break
        if reason:
            post.send("stopped", files=None, reason=reason)
        else:
            run.finish()
            post.send("done", files=whole(run.directory))


def chance_words(run: Run) -> str:
    """That the run knows no more of its first task than who guesses; nothing where it does, or where it has ended."""
    trainer = run.trainer
    if not trainer.rows or trainer.finished:
        return ""
    first, accuracy = run.stream.tasks[0], trainer.rows[0].task_il[0]
    classes, examples = len(first.classes), len(first.split(run.config.train.split))
    if not at_chance(accuracy, classes, examples):
        return ""
    return (
        f"at chance after its first task: Task-IL {accuracy:.1%} of {examples} images, where guessing among {classes} "
        f"classes has {1 / classes:.1%}."
    )


def _watched(run: Run, post: Post) -> Iterator[EpochDone | TaskDone]:
    """The events that were saved; training stops within a step when nobody waits for it."""
    for event in run.events():
        post.check_wanted()
        if isinstance(event, EpochDone | TaskDone):
            yield event


def _opened(path: Path, wish: Config, files: Parcel, code: Collection[str]) -> AbstractContextManager[Run]:
    """A new run, or one that goes on here: with the data and on the device of this machine."""
    if not files:
        return start(wish, path, backbone=_own(wish), code=code)
    path.mkdir()
    directory = RunDirectory(path)
    unpack(files, directory)
    recorded = directory.config()
    machine = resolve_machine(replace(recorded.machine, device=wish.machine.device))
    stream = absolute(replace(recorded.stream, data_dir=wish.stream.data_dir))
    directory.record(replace(recorded, machine=machine, stream=stream))
    return reopen(path, backbone=_own(recorded), code=code)


def _own(config: Config) -> str | None:
    """The code of its network, which was allowed when the grid was laid out; None where that is one of the library."""
    return config.net.backbone if is_own(config.net.backbone) else None


def _tell(post: Post, run: Run, words: str, files: Parcel | None) -> None:
    """How far the run is, with what was saved where that is sent too."""
    done, total = run.trainer.samples, run.trainer.planned_samples()
    notes, run.notes = run.notes, []
    post.send("progress", share=min(1.0, done / max(1, total)), words=words, notes=notes, files=files)


def _words(event: EpochDone | TaskDone, run: Run) -> str:
    stages = len(run.stream.stages)
    epoch = f", epoch {event.epoch + 1}/{event.epochs}" if isinstance(event, EpochDone) else " done"
    return f"task {event.task + 1}/{stages}{epoch}"


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
