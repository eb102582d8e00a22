"""Read a run directory, and say plainly when it cannot be reported."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any

from esacl.artifacts import RunDirectory
from esacl.budget import parse_budget
from esacl.errors import ConfigError, RunError
from esacl.report.record import SETTINGS, Epoch, Matrix, RunRecord, Scores, Seconds
from esacl.report.sweeps import SWEEPS
from esacl.report.units import clean
from esacl.results import Results
from esacl.training.events import EpochDone

SECONDS = ("total", "train", "evaluate", "data")
LARGEST = 1e30  # loss that can be drawn


def load_run(path: Path) -> RunRecord:
    """The record of the finished run in directory `path`."""
    if not path.is_dir():
        raise RunError(f"there is no run directory {str(path)!r}. Give a directory that `esacl run` made.")
    if not (path / "config.toml").is_file():
        raise RunError(f"{str(path)!r} is not a run directory: it has no config.toml. Give one that `esacl run` made.")
    directory = RunDirectory(path)
    try:
        results = directory.read_results()
        if results is None:
            raise RunError(
                f"the run in {str(path)!r} is not finished: it has no results.json. Use "
                f"`esacl resume {quote(str(path))}`."
            )
        return _record(directory, results)
    except ConfigError as error:
        raise RunError(f"{error} Or report another run directory.") from None


def _settings(directory: RunDirectory) -> Mapping[str, Any]:
    """The settings as they are written, if sections are tables and what is plotted is a number."""
    found = directory.tables()
    for name, section in found.items():
        if name in ("method", "seed", "preset"):
            continue
        if not isinstance(section, dict):
            raise ConfigError(f"{str(directory.path / 'config.toml')!r} is damaged: {name} = {section!r} is no table.")
        for key, value in section.items():
            if any(sweep.path == f"{name}.{key}" for sweep in SWEEPS) and type(value) not in (int, float):
                raise ConfigError(
                    f"{str(directory.path / 'config.toml')!r} is damaged: {name}.{key} = {value!r} is no number."
                )
    return found


def _record(directory: RunDirectory, results: Results) -> RunRecord:
    drops = results.pruning_drop
    return RunRecord(
        name=clean(directory.path.resolve().name or str(directory.path)),
        path=directory.path,
        method=clean(results.method),
        stream=clean(results.stream),
        seed=results.seed,
        sparsity=results.sparsity,
        epochs=results.epochs,
        tasks=results.tasks,
        logit_mask=clean(results.logit_mask),
        columns=None if results.columns is None else clean(results.columns),
        split=clean(results.split),
        accuracy=Scores(results.task_il, results.class_il),
        matrix={name: _matrix(rows) for name in SETTINGS if (rows := results.matrix.get(name)) is not None},
        forgetting=Scores(*map(results.forgetting.get, SETTINGS)),
        bwt=Scores(*map(results.bwt.get, SETTINGS)),
        fwt=Scores(*map(results.fwt.get, SETTINGS)),
        density=results.density,
        capacity=results.capacity,
        measured_capacity=results.measured_capacity,
        pruning_drop=Scores(*(fmean(drops[name]) if name in drops else None for name in SETTINGS)),
        flops=results.flops,
        seconds=Seconds(**{name: results.seconds[name] for name in SECONDS}, cpu=results.seconds.get("cpu")),
        peak_memory_bytes=results.peak_memory_bytes,
        remembered_bytes=results.remembered_bytes,
        footprint=results.footprint_bytes,
        config=_settings(directory),
        log=_log(directory, results.tasks),
        task_classes=tuple(tuple(map(clean, names)) for names in results.task_classes),
        confusion=tuple(map(tuple, results.confusion or ())),
        versions={clean(name): clean(version) for name, version in results.versions.items()},
        budget=_budget(results),
    )


def _budget(results: Results) -> str | None:
    """As it was given; a document that names none is damaged."""
    asked = None if results.budget is None else clean(results.budget.asked)
    if asked is not None:
        parse_budget(asked)
    return asked


def _matrix(rows: Sequence[Sequence[float | None]]) -> Matrix:
    return tuple(tuple(nan if cell is None else cell for cell in row) for row in rows)


def _log(directory: RunDirectory, tasks: int) -> tuple[Epoch, ...]:
    """The epochs in the order they were trained; a loss that cannot be drawn has diverged."""
    epochs = [event for event in directory.read_events() if isinstance(event, EpochDone)]
    if (last := max((epoch.task for epoch in epochs), default=0)) >= tasks:
        raise RunError(
            f"{str(directory.events)!r} has epochs of task {last + 1}, but the run has {tasks} tasks. Delete the file "
            f"to go without the training loss."
        )
    return tuple(
        Epoch(epoch.task, clean(epoch.phase), epoch.epoch, epoch.loss if abs(epoch.loss) <= LARGEST else inf)
        for epoch in epochs
    )
