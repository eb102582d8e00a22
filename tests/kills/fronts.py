"""Ways to train: commands, several processes, grids and classifiers; each goes on where it was killed."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tests.kills.bits as bits
from tests.forks import forks
from tests.kills.cluster import Cluster
from tests.kills.moments import Kind, Moment, strike, watch
from tests.kills.setups import Setup

LOST = 2  # exit code of a run whose other process was killed


class Front:
    """Trains a setup in a folder, from where the last process in it was killed; `again` may come before `first`."""

    allowed = (0, -9)  # how a process may end that was to be killed
    kinds: tuple[Kind, ...] = ("step", "write")  # that can be counted where the kill comes from
    writes: int | None = None  # the last write that surely comes; None: as many as the uninterrupted run has

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup, self.folder, self.diary = setup, folder, folder / "kills"
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, moment: Moment | None) -> Any:
        """A process that trains, and dies at the moment."""
        return self._fork(run_command, self._words(), moment)

    def _words(self) -> list[str]:
        raise NotImplementedError

    def _fork(self, target: Callable[..., None], what: Any, moment: Moment | None) -> Any:
        blow = partial(strike_itself, self.diary)
        process = forks.Process(target=target, args=(what, self.folder, moment, blow))
        process.start()
        return process

    def bits(self) -> bits.Bits:
        """What it left behind."""
        return bits.of_run(self.folder / "run")

    def counts(self) -> dict[str, int]:
        """Steps and writes of the last process that ended by itself."""
        counts: dict[str, int] = json.loads((self.folder / "counts").read_text())
        return counts

    def log(self) -> str:
        """What its processes printed."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


class Run(Front):
    """`esacl run`, then `esacl resume`."""

    more: tuple[str, ...] = ()

    def _words(self) -> list[str]:
        place = self.folder / "run"
        if (place / "config.toml").exists():
            method = self.setup.settings["method"]
            return ["resume", str(place), *(["--code", method] if ":" in method else [])]
        return ["run", *self.setup.flags(), *self.more, "--out", str(place)]


class Processes(Run):
    """The same with `--processes 2`: the first one is killed."""

    more = ("--processes", "2")


class Helper(Processes):
    """The same: the second one is killed."""

    allowed = (0, LOST)

    def _fork(self, target: Callable[..., None], what: Any, moment: Moment | None) -> Any:
        process = forks.Process(target=target, args=(what, self.folder, moment, partial(strike_child, self.diary)))
        process.start()
        return process


class LocalGrid(Front):
    """`esacl grid` with a worker of its own: the command is killed, and the worker with it."""

    kinds = ("write",)
    writes = 8  # of the command: the recipe, the tables and the page, each with its folder

    def _words(self) -> list[str]:
        recipe = self.setup.write_recipe(self.folder / "recipe.toml")
        return ["grid", str(recipe), "--out", str(self.folder / "grid"), *self._cluster()]

    def _cluster(self) -> list[str]:
        return ["--jobs", "1"]

    def bits(self) -> bits.Bits:
        """Of its only run."""
        (results,) = (self.folder / "grid").rglob("results.json")
        return bits.of_run(results.parent)


class GridClient(LocalGrid):
    """`esacl grid --scheduler`: the command is killed at a write of its own, or at a step of the worker."""

    kinds = ("step", "write")
    writes = 14  # a finished run alone has seven files, each with its folder

    def _cluster(self) -> list[str]:
        return ["--scheduler", Cluster.running().address]

    def start(self, moment: Moment | None) -> Any:
        """The worker kills the command where steps are counted, as it takes them."""
        steps = moment is not None and moment.kind == "step"
        process = super().start(None if steps else moment)
        Cluster.running().arm(moment if steps else None, self.diary, process.pid)
        return process


class GridWorker(GridClient):
    """`esacl grid --scheduler`: the worker is killed."""

    writes = None

    def start(self, moment: Moment | None) -> Any:
        """The worker is there before the command is."""
        Cluster.running().arm(moment, self.diary, None)
        return Front.start(self, None)


class Classifier(Front):
    """`ContinualClassifier.partial_fit`, task by task, each time saved and loaded."""

    def start(self, moment: Moment | None) -> Any:
        """Goes on with the task after the saved ones."""
        return self._fork(learn_tasks, self.setup.parameters(), moment)

    def bits(self) -> bits.Bits:
        """Of the file."""
        return bits.of_classifier(self.folder / "classifier")


FRONTS: dict[str, type[Front]] = {
    "run": Run,
    "processes, first": Processes,
    "processes, second": Helper,
    "grid, local": LocalGrid,
    "grid, client": GridClient,
    "grid, worker": GridWorker,
    "classifier": Classifier,
}


def strike_itself(diary: Path) -> None:
    strike(os.getpid(), diary)


def strike_child(diary: Path) -> None:
    """Kill the process that this one has started."""
    from psutil import Process

    for child in Process().children():
        if "esacl.processes.worker" in child.cmdline():
            strike(child.pid, diary)


def run_command(words: list[str], folder: Path, moment: Moment | None, blow: Callable[[], None]) -> None:
    """The command line in this process."""
    from esacl.cli import main

    _watched(lambda: main(words), folder, moment, blow)


def learn_tasks(parameters: dict[str, Any], folder: Path, moment: Moment | None, blow: Callable[[], None]) -> None:
    """Five tasks of two digits each, in this process."""
    from sklearn.datasets import load_digits

    from esacl.estimator import ContinualClassifier

    def learn() -> None:
        images, labels = load_digits(return_X_y=True)
        place = folder / "classifier"
        model = ContinualClassifier.load(place) if place.exists() else ContinualClassifier(**parameters)
        for task in range(getattr(model, "n_tasks_", 0), 5):
            rows = (labels // 2 == task).nonzero()[0][:40]
            model.partial_fit(images[rows], labels[rows]).save(place)

    _watched(learn, folder, moment, blow)


def _watched(work: Callable[[], Any], folder: Path, moment: Moment | None, blow: Callable[[], None]) -> None:
    """Do it with its output in a file; how many steps and writes it took is kept beside that."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    counts = watch(moment, blow)
    try:
        work()
    finally:
        (folder / "counts").write_text(json.dumps(counts))
