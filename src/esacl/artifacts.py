"""A run on disk: its directory, its results, and what tells its own files from those of others."""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any

from torch import Tensor

from esacl.config import Config, Tables, read_toml
from esacl.documents import parse_json
from esacl.errors import ConfigError, RunError
from esacl.files import Folder, remove_leftovers
from esacl.results import NewerSchema
from esacl.results import Results as Results
from esacl.run_lock import NAME as LOCK
from esacl.run_lock import RunLock
from esacl.sealed import recorded_digest, seal
from esacl.slots import CHOSEN, OWN
from esacl.training.checkpoint import Checkpoints
from esacl.training.events import Logged, from_json

SETTINGS = "config.toml"
WRITTEN = ("events.jsonl", "results.json", "report.html", "model.safetensors")
"""Files that a run writes besides its settings, checkpoints and TensorBoard's."""

_SECTIONS = {"method", "seed", "stream", "net", "train", "machine"}  # every run has written all of them
_TENSORBOARD = re.compile(r"events\.out\.tfevents\..+")


def _repeated(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that results repeat, as far as these have them."""
    tables = {name: table for name, table in config.items() if isinstance(table, dict)}
    stream, train, parts = (tables.get(name, {}) for name in ("stream", "train", "parts"))
    chosen = [str(parts[slot]) for slot in CHOSEN if parts.get(slot, OWN) != OWN]
    found = {
        "method": " + ".join([str(config["method"]), *chosen]) if "method" in config else None,
        "seed": config.get("seed"),
        "stream": stream.get("name"),
        "epochs": train.get("epochs"),
        "split": train.get("split"),
    }
    return {name: value for name, value in found.items() if value is not None}


class RunDirectory:
    """The files of one run, read and written inside its directory only: links are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = RunLock(path)
        self.folder = Folder(path, guard=self._lock.check)
        self.checkpoints = Checkpoints(Folder(path / "checkpoint", self.folder, self._lock.check))
        self.events = path / "events.jsonl"
        self.results = path / "results.json"
        self.report = path / "report.html"
        self.weights = path / "model.safetensors"
        self.tensorboard = path / "tensorboard"
        self._boards = Folder(self.tensorboard, self.folder, self._lock.check)
        self._config = path / SETTINGS

    @contextmanager
    def locked(self, also: Collection[str] = (), patience: float = 0) -> Iterator[None]:
        """Hold the directory: a second process is refused, and a killed one leaves no lock behind.

        `also` are names of files that the holder writes there besides those of a run; `patience` are the seconds that
        it waits for another process.
        """
        try:
            self.folder.make()
            self.check_links()
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from None
        with ExitStack() as held:
            try:
                held.enter_context(self._lock.hold(patience))
            except OSError as error:
                raise self._unwritable(error.strerror or str(error)) from None
            remove_leftovers(self.folder, {SETTINGS, *WRITTEN, *also}.__contains__)
            self.checkpoints.remove_leftovers()
            yield

    def check_held(self) -> None:
        """Stop where somebody has taken the lock away; every write through this object asks by itself."""
        self._lock.check()

    def check_links(self) -> None:
        """Refuse a directory, as one may receive it, in which a file of a run leads elsewhere."""
        for name in (SETTINGS, *WRITTEN, "checkpoint", "tensorboard", LOCK):
            self.folder.refuse_link(name)

    def check_free(self, overwrite: bool) -> None:
        """Refuse to start where a run is already, unless it may be replaced, and never touch files of others."""
        self._check_writable()
        self.check_links()
        owned = (*WRITTEN, "checkpoint", "tensorboard")
        foreign = [name for name in owned if (self.path / name).exists()]
        if foreign and not self._config.exists():
            raise RunError(
                "{path!r} holds {file!r}, which no run put there (there is no config.toml).",
                remedy="Choose another {out}, or move that file away.",
                path=str(self.path),
                file=foreign[0],
            )
        if self._config.exists():
            self._check_is_run()
        if self._config.exists() and not overwrite:
            raise RunError(
                "{path!r} holds a run already.",
                remedy="Continue it with `esacl resume {quoted}`, choose another {out}, or replace it with "
                "{overwrite:true}.",
                path=str(self.path),
                quoted=quote(str(self.path)),
            )

    def _check_is_run(self) -> None:
        """Refuse a config.toml that somebody else may miss: one that a run wrote has every section."""
        try:
            written = read_toml(self._config)
            Config.from_mapping(written)
            ours = written.keys() >= _SECTIONS
        except ConfigError:
            ours = False
        if not ours:
            raise RunError(
                "{path!r} is not the config.toml of a run.",
                remedy="Choose another {out}, or move it away.",
                path=str(self._config),
            )

    def _check_writable(self) -> None:
        """Refuse a place that cannot be written to, before any data are read."""
        nearest = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if not nearest.is_dir():
            raise self._unwritable(f"{str(nearest)!r} is a file")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise self._unwritable(f"you may not write to the folder {str(nearest)!r}")

    def _unwritable(self, reason: str) -> RunError:
        remedy = "Choose another folder with {out}."
        return RunError("cannot write to {path!r}: {reason}.", remedy=remedy, path=str(self.path), reason=reason)

    def begin(self, config: Config, overwrite: bool = False) -> None:
        """Make it the directory of a new run."""
        self.check_free(overwrite)
        self._clear()
        self.record(config)  # last, so that a run replaced halfway still is a run

    def abandon(self) -> None:
        """Forget a run that failed before anything was saved, so that the corrected one may take its place."""
        self._clear()
        self.folder.remove(SETTINGS)  # last, as what is left without it is nobody's

    def _clear(self) -> None:
        """Remove all that a run has written but its settings, and nothing that others put beside it."""
        for name in WRITTEN:
            self.folder.remove(name)
        self.checkpoints.clear()
        self.clear_tensorboard()

    def clear_tensorboard(self) -> None:
        """Remove TensorBoard's files; links are refused."""
        self.folder.refuse_link("tensorboard")
        for name in filter(_TENSORBOARD.fullmatch, self._boards.names()):
            self._boards.remove(name)
        self._boards.remove_if_empty()

    def tables(self) -> Tables:
        """The settings of the run that is there, as they are written."""
        if not self._config.is_file():
            raise self._no_run()
        self.check_links()
        return read_toml(self._config)

    def config(self) -> Config:
        """The settings of the run that is there."""
        try:
            return Config.from_mapping(self.tables())
        except ConfigError as error:
            raise error.within(f"{str(self._config)!r} does not describe a run") from None

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
        self.folder.write(SETTINGS, config.to_toml())

    def append_event(self, event: dict[str, Any]) -> None:
        """Add a line to the event log."""
        self.folder.append(self.events.name, json.dumps(event) + "\n")

    def read_events(self) -> Iterator[Logged]:
        """The event log so far, but for half a line at its end, as a writer leaves it that dies."""
        with suppress(FileNotFoundError), self.folder.file(self.events.name).open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    event = from_json(parse_json(line)) if line.endswith(b"\n") else None
                except ValueError as error:
                    raise RunError(
                        f"{str(self.events)!r} is damaged: line {number} is not an event ({error}). Delete the file to "
                        f"go without the training loss."
                    ) from None
                if event is not None:
                    yield event

    def event_bytes(self) -> int:
        """Length of the event log."""
        return self.events.stat().st_size if self.events.exists() else 0

    def rewind_events(self, size: int) -> None:
        """Drop what was logged after a checkpoint was taken."""
        self.folder.truncate(self.events.name, size)

    def write_results(self, results: Results) -> None:
        """Write `results.json`: a run is finished when this file is there."""
        self.folder.write(self.results.name, json.dumps(results.to_json(), indent=1, allow_nan=False) + "\n")

    def read_results(self) -> Results | None:
        """The results of a finished run; None of one that is not."""
        if not self.results.exists():
            return None
        self.check_links()
        try:
            results = Results.from_json(parse_json(self.results.read_bytes()))
        except NewerSchema as error:
            raise RunError(
                f"{str(self.results)!r} was written by a newer version of esacl: {error}. Update esacl, or use the "
                f"version that wrote it."
            ) from None
        except (OSError, ValueError) as error:
            raise RunError(
                f"{str(self.results)!r} is damaged, or not written by esacl: {error}. Delete it: "
                f"`esacl resume {quote(str(self.path))}` writes a new one; or run it again with `esacl run`."
            ) from None
        self._check_same_run(results)
        return results

    def _check_same_run(self, results: Results) -> None:
        """Refuse results of another run than the one whose settings and weights are there."""
        for name, value in _repeated(self.tables()).items():
            if getattr(results, name) != value:
                raise self._of_another_run(f"it says {name} = {getattr(results, name)!r}, config.toml {value!r}")
        found = recorded_digest(self.weights)
        if results.weights_sha256 is not None and found is not None and results.weights_sha256 != found:
            raise self._of_another_run("model.safetensors has another digest than it says")

    def _of_another_run(self, why: str) -> RunError:
        return RunError(
            f"{str(self.results)!r} is of another run: {why}. Put back the files of one run, or delete this one: "
            f"`esacl resume {quote(str(self.path))}` writes it anew."
        )

    def write_weights(self, state: dict[str, Tensor], about: dict[str, Any]) -> str:
        """Write the final weights with what is needed to read them; returns their digest."""
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
        data, told = seal(tensors, about)
        self.folder.write(self.weights.name, data)
        return told
