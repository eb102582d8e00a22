"""Training a run from Python: all at once, or event by event."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from esacl.artifacts import Results, RunDirectory
from esacl.config import Config
from esacl.errors import ConfigError, naming
from esacl.methods import Given as GivenMethod
from esacl.nets import Given
from esacl.problem import Naming
from esacl.report import write_report
from esacl.runner.active_run import Run
from esacl.runner.entry import default_place, reopen, start
from esacl.short_names import as_keyword, as_recorded
from esacl.streams import Stream
from esacl.training.events import Event

Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Finished:
    """A run is over, and everything is written; the last event of a run."""

    results: Results
    out: Path


def iter_run(
    config: Config | Path | str,
    out: Path | str | None = None,
    stream: Stream | None = None,
    overwrite: bool = False,
    backbone: Given | None = None,
    processes: int | None = None,
    method: GivenMethod | None = None,
    code: Collection[str] = (),
) -> Iterator[Event | Finished]:
    """Train a run event by event; the result is that of `run`, bit for bit.

    Settings start a new run, in `out` or runs/METHOD-STREAM-SEED; the directory of a run continues it, by another
    number of `processes` if one is given. To stop, leave the loop: what was saved last, at the end of an epoch or a
    task, is where the run goes on.
    """
    if isinstance(config, Path | str):
        if out is not None or overwrite:
            given = f"out = {str(out)!r}" if out is not None else "overwrite = True"
            raise ConfigError(
                f"the directory of a run, {str(config)!r}, continues it where it is, but {given} was given. Leave it "
                f"out, or give settings, which start a new run."
            )
        directory = RunDirectory(Path(config))
        finished = _finished(directory)
        if finished is not None:
            yield Finished(finished, directory.path)
            return
        opening = reopen(directory.path, stream, None, backbone, processes, method, code)
    else:
        if processes is not None:
            raise ConfigError(
                f"processes = {processes!r} is for a run that is continued; that of a new run is among its settings. "
                f"Write esacl.Config.of(..., processes={processes!r})."
            )
        place = default_place(config) if out is None and isinstance(config, Config) else Path(out or "runs")
        opening = start(config, place, stream, overwrite, backbone=backbone, method=method, code=code)
    with naming(_names(config)), opening as opened:
        yield from opened.events()
        results = opened.finish()
    yield Finished(results, opened.directory.path)


def run(
    config: Config,
    out: Path | str,
    stream: Stream | None = None,
    overwrite: bool = False,
    listen: Listener | None = None,
    backbone: Given | None = None,
    method: GivenMethod | None = None,
    code: Collection[str] = (),
) -> Results:
    """Train and evaluate a method on a stream; everything is in `out` afterwards.

    `backbone` is a network of one's own: any module that maps images to features or logits (docs/own-network.md).
    `method` is a method of one's own, as `esacl.Method` or the name of code (docs/plugins.md). `code` names code that
    may be started although settings from a file name it.
    """
    opening = start(config, Path(out), stream, overwrite, backbone=backbone, method=method, code=code)
    with naming(_names(config)), opening as opened:
        return _complete(opened, listen)


def resume(
    out: Path | str,
    stream: Stream | None = None,
    listen: Listener | None = None,
    backbone: Given | None = None,
    processes: int | None = None,
    method: GivenMethod | None = None,
    code: Collection[str] = (),
) -> Results:
    """Continue a run that was interrupted; the result is that of a run that was not.

    What was given as an object when the run began, a stream, a network or a method, is given again. `code` names other
    code that the run's settings may start.
    """
    directory = RunDirectory(Path(out))
    finished = _finished(directory)
    if finished is not None:
        return finished
    opening = reopen(directory.path, stream, None, backbone, processes, method, code)
    with naming(as_recorded), opening as opened:
        return _complete(opened, listen)


def _names(config: Config | Path | str) -> Naming:
    """How errors name settings: by keyword, or as the file that they are in."""
    return as_keyword if isinstance(config, Config) and config.origin is None else as_recorded


def _finished(directory: RunDirectory) -> Results | None:
    """The results of a run with nothing left to do but its report, if that is missing; None of one that goes on."""
    finished = directory.read_results()
    if finished is not None and not directory.report.exists():
        write_report([directory.path], directory.report)
    return finished


def _complete(opened: Run, listen: Listener | None) -> Results:
    for event in opened.events():
        if listen is not None:
            listen(event)
    return opened.finish()
