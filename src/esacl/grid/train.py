"""One run of a grid, on whatever machine: opened where it stopped, trained step by step, stopped at chance."""

import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from esacl.artifacts import RunDirectory
from esacl.code import is_own
from esacl.config import Config
from esacl.errors import EsaclError
from esacl.machine import resolve_machine
from esacl.metrics.seeds import at_chance
from esacl.runner import Run, reopen, start
from esacl.streams import absolute
from esacl.training.events import EpochDone, TaskDone


@dataclass(frozen=True, slots=True)
class Step:
    """Where a run is: when it was opened, and after everything that was saved."""

    share: float
    words: str
    notes: list[str]
    saved: EpochDone | TaskDone | None = None
    stopped: str = ""  # why the run is not trained any further; nothing where it is


def open_run(directory: RunDirectory, wish: Config, code: Collection[str]) -> AbstractContextManager[Run]:
    """A new run, or one that goes on: with the data and on the device of this machine."""
    if not directory.checkpoints.numbers():
        return start(wish, directory, overwrite=True, backbone=_own(wish), code=code)
    recorded = directory.config()
    machine = resolve_machine(replace(recorded.machine, device=wish.machine.device))
    stream = absolute(replace(recorded.stream, data_dir=wish.stream.data_dir))
    directory.record(replace(recorded, machine=machine, stream=stream))
    return reopen(directory, backbone=_own(recorded), code=code)


def steps(run: Run, stop_at_chance: bool, check: Callable[[], None] = lambda: None) -> Iterator[Step]:
    """Train a run to its end, or until it is stopped; `check` is asked at every training step."""
    yield _step(run, "continued" if run.trainer.samples else "started")
    reason = chance_words(run) if stop_at_chance else ""  # there already, if a worker died on telling it
    for event in () if reason else run.events():
        check()
        if isinstance(event, EpochDone | TaskDone):
            yield _step(run, _words(event, run), event)
            if stop_at_chance and isinstance(event, TaskDone) and (reason := chance_words(run)):
                break
    if reason:
        yield _step(run, "stopped", stopped=reason)
    else:
        run.finish()


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


def why(error: BaseException) -> tuple[str, str]:
    """Why a run failed, in one message, and what only a developer can read."""
    if isinstance(error, EsaclError):
        return str(error), ""
    return f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))


def _own(config: Config) -> str | None:
    """The code of its network, which was allowed when the grid was laid out; None where that is one of the library."""
    return config.net.backbone if is_own(config.net.backbone) else None


def _step(run: Run, words: str, saved: EpochDone | TaskDone | None = None, stopped: str = "") -> Step:
    notes, run.notes = run.notes, []
    return Step(run.trainer.share_done(), words, notes, saved, stopped)


def _words(event: EpochDone | TaskDone, run: Run) -> str:
    epoch = f", epoch {event.epoch + 1}/{event.epochs}" if isinstance(event, EpochDone) else " done"
    return f"task {event.task + 1}/{len(run.stream.stages)}{epoch}"
