"""A run on disk: its directory, its results, and the lock that keeps a second process out."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from filelock import FileLock, Timeout
from safetensors.torch import save
from torch import Tensor

from esacl.config import Config, read_toml
from esacl.errors import ConfigError, RunError
from esacl.files import remove_leftovers, write_atomic
from esacl.metrics.cost import Flops
from esacl.metrics.memory import Footprint
from esacl.training.checkpoint import Checkpoints

SCHEMA = 1


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """What a finished run has to show; accuracies are fractions. `None`: not defined for this method."""

    method: str
    stream: str
    seed: int
    sparsity: float
    epochs: int
    tasks: int
    logit_mask: str
    split: str
    task_il: float
    class_il: float | None
    matrix: dict[str, list[list[float]] | None]
    forgetting: dict[str, float | None]
    bwt: dict[str, float | None]
    fwt: dict[str, float | None]
    density: float
    capacity: float
    flops: Flops
    seconds: dict[str, float]
    peak_memory_bytes: int
    footprint_bytes: Footprint
    task_classes: list[list[str]]
    versions: dict[str, str]
    pruning_drop: dict[str, list[float]] = field(default_factory=dict)  # what pruning cost after each task, if measured
    measured_capacity: float | None = None  # values at their density and coded masks, relative to all weights
    remembered_bytes: int | None = None  # held besides the network when training ended: memories, teachers, masks

    def __repr__(self) -> str:
        scores = (
            {"Domain-IL": self.task_il} if self.same_classes else {"Task-IL": self.task_il, "Class-IL": self.class_il}
        )
        shown = ", ".join(f"{name} {score:.1%}" for name, score in scores.items() if score is not None)
        return f"Results({self.method} on {self.stream}, seed {self.seed}: {shown})"

    @property
    def same_classes(self) -> bool:
        """Whether every one of several tasks has the same classes: Task-IL and Class-IL are then one figure."""
        return len(self.task_classes) > 1 and len(set(map(frozenset, self.task_classes))) == 1

    def to_json(self) -> dict[str, Any]:
        """The stable document that `results.json` holds."""
        return {"schema": SCHEMA, **asdict(self)}

    @staticmethod
    def from_json(document: dict[str, Any]) -> "Results":
        """The results that `to_json` wrote."""
        values = {name: value for name, value in document.items() if name != "schema"}
        values["flops"] = Flops(**values["flops"])
        values["footprint_bytes"] = Footprint(**values["footprint_bytes"])
        return Results(**values)


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoint")
        self.events = path / "events.jsonl"
        self.results = path / "results.json"
        self.report = path / "report.html"
        self.weights = path / "model.safetensors"
        self.tensorboard = path / "tensorboard"
        self._config = path / "config.toml"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory: a second process is refused, and a killed one leaves no lock behind."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            lock.acquire()
        except Timeout:
            raise RunError(
                f"another process is working in {str(self.path)!r}. Wait until it ends, or use another directory."
            ) from None
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from None
        try:
            remove_leftovers(self.path)
            remove_leftovers(self.checkpoints.folder)
            yield
        finally:
            lock.release()

    def check_free(self, overwrite: bool) -> None:
        """Refuse to start where a run is already, unless it may be replaced, and never touch files of others."""
        self._check_writable()
        foreign = [path.name for path in self._owned() if path.exists()]
        if foreign and not self._config.exists():
            raise RunError(
                f"{str(self.path)!r} holds {foreign[0]!r}, which no run put there (there is no config.toml). "
                f"Choose another --out, or move that file away."
            )
        if self._config.exists():
            self._check_is_run()
        if self._config.exists() and not overwrite:
            raise RunError(
                f"{str(self.path)!r} holds a run already. Continue it with `esacl resume {quote(str(self.path))}`, "
                f"choose another --out, or replace it with --overwrite."
            )

    def _check_is_run(self) -> None:
        """Refuse a config.toml that somebody else may miss."""
        try:
            self.config()
        except ConfigError:
            raise RunError(
                f"{str(self._config)!r} is not the config.toml of a run. Choose another --out, or move it away."
            ) from None

    def _check_writable(self) -> None:
        """Refuse a place that cannot be written to, before any data are read."""
        nearest = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if not nearest.is_dir():
            raise self._unwritable(f"{str(nearest)!r} is a file")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise self._unwritable(f"you may not write to the folder {str(nearest)!r}")

    def _unwritable(self, reason: str) -> RunError:
        return RunError(f"cannot write to {str(self.path)!r}: {reason}. Choose another folder with --out.")

    def begin(self, config: Config, overwrite: bool = False) -> None:
        """Make it the directory of a new run."""
        self.check_free(overwrite)
        self._clear()
        write_atomic(self._config, config.to_toml())  # last, so that a run replaced halfway still is a run

    def abandon(self) -> None:
        """Forget a run that failed before anything was saved, so that the corrected one may take its place."""
        self._clear()
        self._config.unlink()  # last, as what is left without it is nobody's

    def _clear(self) -> None:
        """Remove all that a run has written but its settings."""
        for path in self._owned():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _owned(self) -> tuple[Path, ...]:
        """What a run writes besides its settings."""
        return (self.events, self.results, self.report, self.weights, self.checkpoints.folder, self.tensorboard)

    def config(self) -> Config:
        """The settings of the run that is there."""
        if not self._config.exists():
            raise self._no_run()
        try:
            return Config.from_mapping(read_toml(self._config))
        except ConfigError as error:
            raise ConfigError(f"{str(self._config)!r} does not describe a run: {error}") from None

    def _no_run(self) -> RunError:
        """What is there instead, and what to do."""
        inside = sorted(path.parent for path in self.path.glob("*/config.toml"))
        found = "it has no config.toml" if self.path.is_dir() else "there is no such folder"
        remedy = f"Start one with `esacl run --out {quote(str(self.path))}`"
        if self.path.is_file():
            found, remedy = "that is a file", "Give the directory that `esacl run` made"
        elif inside:
            remedy = f"Give one of the runs in it, such as {str(inside[0])!r}"
        return RunError(f"there is no run in {str(self.path)!r}: {found}. {remedy}.")

    def record(self, config: Config) -> None:
        """Write down how the run goes on, where that is not as it began: by another number of processes."""
        write_atomic(self._config, config.to_toml())

    def append_event(self, event: dict[str, Any]) -> None:
        """Add a line to the event log."""
        with self.events.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_events(self) -> Iterator[dict[str, Any]]:
        """The lines of the event log so far."""
        with suppress(FileNotFoundError), self.events.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    def event_bytes(self) -> int:
        """Length of the event log."""
        return self.events.stat().st_size if self.events.exists() else 0

    def rewind_events(self, size: int) -> None:
        """Drop what was logged after a checkpoint was taken."""
        with self.events.open("ab") as file:
            file.truncate(min(size, file.tell()))

    def write_results(self, results: Results) -> None:
        """Write `results.json`: a run is finished when this file is there."""
        write_atomic(self.results, json.dumps(results.to_json(), indent=1, allow_nan=False) + "\n")

    def read_results(self) -> Results | None:
        """The results of a finished run; None of one that is not."""
        if not self.results.exists():
            return None
        try:
            return Results.from_json(json.loads(self.results.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise RunError(
                f"{str(self.results)!r} is damaged. Delete it: `esacl resume {quote(str(self.path))}` writes a new one."
            ) from None

    def write_weights(self, state: dict[str, Tensor], about: dict[str, Any]) -> None:
        """Write the final weights, with what is needed to read them as one JSON document in the metadata.

        One key, because the format does not keep the order of several: the same run gives the same bytes.
        """
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
        write_atomic(self.weights, save(tensors, {"esacl": json.dumps(about)}))
