"""The first process's side: it starts the others, tells them the run, and says what happened when one is lost."""

import os
import site
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from signal import Signals
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import esacl
from esacl.artifacts import RunDirectory
from esacl.config import Config
from esacl.errors import ConfigError, RunError
from esacl.nets.data_parallel import Unreachable
from esacl.processes.group import joined, rendezvous, torchrun_rank
from esacl.processes.job import job, send
from esacl.processes.worker import LOST
from esacl.training.trainer import Trainer

POLL = 0.02  # seconds between two looks at a worker that is starting
GRACE = 5.0  # seconds that a worker has to end, or to show that it is dead


@contextmanager
def team(trainer: Trainer, config: Config, directory: RunDirectory) -> Iterator[None]:
    """The other processes of a run, where there are any, at the place where the trainer is; none is left behind."""
    shares = trainer.net.shares
    if shares is None:
        yield
        return
    _check_free()
    with ExitStack() as held:
        place = torchrun_rank()
        folder = Path(held.enter_context(TemporaryDirectory(prefix="esacl-")))
        workers: list[subprocess.Popen[bytes]] = []
        held.callback(_end, workers)
        try:
            store = None if place else _start(workers, folder, shares.size)
            held.enter_context(joined(0, shares.size, 0, store))
            send(job(trainer, config))
            shares.active = True
            held.callback(setattr, shares, "active", False)
            yield
        except Unreachable as error:
            reason = _reason(workers, folder) or f"a process does not answer any more ({error})"
            raise RunError(f"{reason}, so the run was ended. {_remedy(directory)}") from None


def _remedy(directory: RunDirectory) -> str:
    """How to go on with a run that was ended."""
    if not directory.checkpoints.numbers():
        return "Nothing was saved yet: repeat the command."
    return f"Continue from the last checkpoint with: esacl resume {quote(str(directory.path))}"


def _check_free() -> None:
    """Refuse where the group of a run cannot be formed."""
    from torch import distributed

    place = torchrun_rank()
    if place is not None and place.rank > 0:
        raise ConfigError(
            f"this is process {place.rank} of torchrun, which can only help the first: start the run as a command, "
            f"`torchrun ... -m esacl run ...`."
        )
    if distributed.is_initialized():
        raise ConfigError(
            "this process belongs to a group of torch.distributed already, and a run with several processes forms one "
            "of its own.",
            remedy="Leave that group first, or use {machine.processes:1}.",
        )


def _start(workers: list["subprocess.Popen[bytes]"], folder: Path, size: int) -> Any:
    """Start all others and wait until they are there."""
    store = rendezvous(folder, size)
    environment = _environment()
    for rank in range(1, size):
        # -P: modules of the current folder are not meant, whatever their names
        command = [sys.executable, "-P", "-m", "esacl.processes.worker", str(rank), str(size), str(folder)]
        workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment))
    while not store.check([f"ready {rank}" for rank in range(1, size)]):
        if any(worker.poll() is not None for worker in workers):
            raise Unreachable("it ended before it began")
        sleep(POLL)
    return store


def _environment() -> dict[str, str]:
    """What others need to find this very package; installed packages stay behind the standard library."""
    root = Path(esacl.__file__).resolve().parents[1]
    named = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    installed = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    if root in [Path(path).resolve() for path in [*named, *installed]]:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *named])}


def _end(workers: list["subprocess.Popen[bytes]"]) -> None:
    """Let go of all others, which makes them end; none is left behind."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    until = monotonic() + GRACE
    for worker in workers:
        try:
            worker.wait(max(0.0, until - monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _reason(workers: list["subprocess.Popen[bytes]"], folder: Path) -> str | None:
    """Which process died first, and why: one that was only left alone is not it."""
    until = monotonic() + GRACE
    while monotonic() < until:
        for rank, worker in enumerate(workers, start=1):
            code, word = worker.poll(), folder / f"word-{rank}"
            named = f"process {rank} of 0 to {len(workers)} (pid {worker.pid})"
            if code is not None and code < 0:
                return f"{named} was killed by {Signals(-code).name}"
            if code not in (None, LOST):
                said = word.read_text(encoding="utf-8") if word.exists() else f"it ended with code {code}"
                return f"{named} failed: {said.rstrip('.')}"
        sleep(POLL)
    return None
