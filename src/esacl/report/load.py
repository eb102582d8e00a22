"""Read a run directory, and say plainly when it cannot be reported."""

import json
import tomllib
from collections.abc import Mapping
from math import inf, isfinite, nan
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any

from esacl.artifacts import RunDirectory
from esacl.errors import RunError
from esacl.metrics.cost import Flops
from esacl.metrics.memory import Footprint
from esacl.report.record import SETTINGS, Epoch, Matrix, RunRecord, Scores, Seconds, Setting
from esacl.report.units import clean
from esacl.results import SCHEMA


def load_run(path: Path) -> RunRecord:
    """The record of the finished run in directory `path`."""
    if not path.is_dir():
        raise RunError(f"there is no run directory {str(path)!r}. Give a directory that `esacl run` made.")
    config, results = path / "config.toml", path / "results.json"
    if not config.is_file():
        raise RunError(f"{str(path)!r} is not a run directory: it has no config.toml. Give one that `esacl run` made.")
    if not results.is_file():
        raise RunError(
            f"the run in {str(path)!r} is not finished: it has no results.json. Use `esacl resume {quote(str(path))}`."
        )
    directory = RunDirectory(path)
    directory.check_links()
    found, settings = _results(results), _config(config)
    record = _record(path, _Table(found, results), settings, _log(path / "events.jsonl"))
    directory.check_results(found, settings)
    return record


def _record(path: Path, table: "_Table", config: Mapping[str, Any], log: tuple[Epoch, ...]) -> RunRecord:
    tasks = table.whole("tasks", low=1)
    cost, time, footprint = table.table("flops"), table.table("seconds"), table.table("footprint_bytes")
    accuracy = Scores(table.number("task_il", low=0, high=1), table.maybe("class_il", low=0, high=1))
    return RunRecord(
        name=clean(path.resolve().name or str(path)),
        path=path,
        method=table.text("method"),
        stream=table.text("stream"),
        seed=table.whole("seed"),
        sparsity=table.number("sparsity", low=0, high=1),
        epochs=table.whole("epochs"),
        tasks=tasks,
        logit_mask=table.text("logit_mask"),
        columns=table.text("columns") if table.values.get("columns") is not None else None,
        split=table.text("split"),
        accuracy=accuracy,
        matrix=_matrices(table.table("matrix"), tasks, accuracy),
        forgetting=table.scores("forgetting"),
        bwt=table.scores("bwt"),
        fwt=table.scores("fwt"),
        density=table.number("density", low=0),
        capacity=table.number("capacity", low=0),
        measured_capacity=table.maybe("measured_capacity", low=0) if "measured_capacity" in table.values else None,
        pruning_drop=_pruning_drop(table),
        flops=_flops(cost),
        seconds=Seconds(*(time.number(key, low=0) for key in ("total", "train", "evaluate", "data"))),
        peak_memory_bytes=table.maybe("peak_memory_bytes", low=0),
        remembered_bytes=table.maybe("remembered_bytes", low=0) if "remembered_bytes" in table.values else None,
        footprint=Footprint(*(footprint.whole(key) for key in ("parameters", "activations", "gradients"))),
        config=config,
        log=log,
        task_classes=_task_classes(table, tasks),
        versions=table.table("versions").texts() if "versions" in table.values else {},
    )


def _flops(cost: "_Table") -> Flops:
    """Cost in operations; what it is credited with only where the run recorded that."""
    credited = cost.maybe("credited", low=0) if "credited" in cost.values else None
    paper, sparse, executed = (cost.number(key, low=0) for key in ("paper", "sparse", "executed"))
    return Flops(paper, sparse, executed, credited)


def _pruning_drop(table: "_Table") -> Scores:
    """Mean over the stages, where the run recorded it."""
    drops = table.table("pruning_drop") if table.values.get("pruning_drop") else _Table({}, table.path)
    return Scores(*(drops.mean(key) if key in drops.values else None for key in SETTINGS))


def _matrices(table: "_Table", tasks: int, accuracy: Scores) -> dict[Setting, Matrix]:
    """The accuracy matrices, one row for each stage, or a single one when all tasks were trained at once."""
    matrices = {key: table.matrix(key, tasks) for key in SETTINGS if table.get(key) is not None}
    if set(matrices) != {key for key in SETTINGS if accuracy.of(key) is not None}:
        raise table.damaged("an accuracy and its matrix must be there, or be null, together")
    if len({len(rows) for rows in matrices.values()}) > 1:
        raise table.damaged("both settings must have the same number of rows")
    return matrices


class _Table:
    """A JSON object whose values are checked as they are read."""

    def __init__(self, values: Mapping[str, Any], path: Path, where: str = "") -> None:
        self.values, self.path, self.where = values, path, where

    def damaged(self, what: str) -> RunError:
        where = f"{self.where.rstrip('.')}: " if self.where else ""
        return RunError(
            f"{str(self.path)!r} is damaged, or not written by esacl: {where}{what}. "
            "Use another run directory, or run it again with `esacl run`."
        )

    def get(self, key: str) -> Any:
        if key not in self.values:
            raise self.damaged(f"{key!r} is missing")
        return self.values[key]

    def table(self, key: str) -> "_Table":
        value = self.get(key)
        if not isinstance(value, dict):
            raise self.damaged(f"{key!r} is not a table")
        return _Table(value, self.path, f"{self.where}{key}.")

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise self.damaged(f"{key} = {value!r} is not text")
        return clean(value)

    def number(self, key: str, low: float = -inf, high: float = inf) -> float:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.damaged(f"{key} = {value!r} is not a number")
        if not low <= value <= high:
            raise self.damaged(f"{key} = {value!r} is not {f'from {low:g} to {high:g}' if high < inf else 'positive'}")
        return float(value)

    def whole(self, key: str, low: int = 0) -> int:
        value = self.number(key, low)
        if not value.is_integer():
            raise self.damaged(f"{key} = {value!r} is not a whole number")
        return int(self.values[key])

    def maybe(self, key: str, low: float = -inf, high: float = inf) -> float | None:
        return None if self.get(key) is None else self.number(key, low, high)

    def scores(self, key: str) -> Scores:
        if self.get(key) is None:
            return Scores(None, None)
        table = self.table(key)
        return Scores(table.maybe("task_il"), table.maybe("class_il"))

    def matrix(self, key: str, tasks: int) -> Matrix:
        rows = self.get(key)
        shaped = isinstance(rows, list) and all(isinstance(row, list) and len(row) == tasks for row in rows)
        if not shaped or len(rows) not in (1, tasks):
            raise self.damaged(f"{key!r} is not a matrix with {tasks} columns and 1 or {tasks} rows")
        cells = [_Table({f"{key}[{i}][{j}]": x for j, x in enumerate(row)}, self.path) for i, row in enumerate(rows)]
        return tuple(tuple(_or_nan(row.maybe(name, 0, 1)) for name in row.values) for row in cells)

    def mean(self, key: str) -> float:
        values = self.get(key)
        if not isinstance(values, list) or not values:
            raise self.damaged(f"{key!r} is not a list of numbers")
        cells = _Table({f"{key}[{i}]": value for i, value in enumerate(values)}, self.path, self.where)
        return fmean(cells.number(name, -1, 1) for name in cells.values)

    def texts(self) -> dict[str, str]:
        return {clean(key): self.text(key) for key in self.values}


def _task_classes(table: _Table, tasks: int) -> tuple[tuple[str, ...], ...]:
    """The class names of each task, where the run recorded them."""
    value = table.values.get("task_classes") or []
    if (
        not isinstance(value, list)
        or len(value) not in (0, tasks)
        or not all(isinstance(names, list) for names in value)
    ):
        raise table.damaged(f"'task_classes' is not one list of names for each of the {tasks} tasks")
    return tuple(tuple(clean(str(name)) for name in names) for names in value)


def _results(path: Path) -> dict[str, Any]:
    """The results as JSON, when their schema is the one this version reads."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _Table({}, path).damaged(f"it cannot be read as JSON ({error})") from None
    if not isinstance(values, dict) or "schema" not in values:
        raise _Table({}, path).damaged("'schema' is missing")
    if values["schema"] != SCHEMA:
        raise RunError(
            f"{str(path)!r} has schema {values['schema']!r}, but this version of esacl reads schema {SCHEMA}. "
            "Report it with the version of esacl that wrote it."
        )
    return values


def _config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {str(path)!r} as TOML: {error}. Use another run directory.") from None


def _log(path: Path) -> tuple[Epoch, ...]:
    """The epochs in the order they were trained."""
    epochs: list[Epoch] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            event = json.loads(line)
            if event["event"] == "epoch":
                task, epoch = int(event["task"]), int(event["epoch"])
                epochs.append(Epoch(task, clean(str(event["phase"])), epoch, _or_nan(event["loss"])))
        except (KeyError, TypeError, ValueError):
            what = f"{str(path)!r} is damaged: {line!r} is not an event."
            raise RunError(f"{what} Delete the file to report without the training loss.") from None
    return tuple(epochs)


def _or_nan(value: Any) -> float:
    return nan if value is None else float(value)
