"""Accuracy and time on workload P: ours beside a reference loop in plain torch and a bare fine-tuning loop.

Workload P is Split CIFAR-10 with the first 500 training images of each class, all test images, ResNet-18 of width 10,
batch 32, buffer 500, 5 epochs a task, crop and flip, one thread. The loops take turns, epoch by epoch, in one process;
time is CPU time of the epochs of tasks 2 to 5, without checkpoints and evaluation, as a multiple of the bare loop's. A
comparison that is in --out with the same settings is not run again. A small form: --limit 40 --test 50 --epochs 1
--seeds 0. Run: make bench-parity
"""

import argparse
import gzip
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import torch
from parity_page import table, write_page
from reference.common import Result, Settings, Task, bare, resnet18
from reference.derpp import derpp
from reference.er import er

import esacl
from esacl.config import set_option
from esacl.errors import EsaclError
from esacl.events import EpochDone, StepDone, TaskStarted
from esacl.files import write_atomic
from esacl.methods import resolve
from esacl.runner import Finished
from esacl.streams.base import Examples, Stream
from esacl.streams.choose import Limit, rows_by_class

PAGE = Path(__file__).parents[1] / "docs" / "results" / "parity.md"
BATCH, BUFFER, WIDTH = 32, 500, 10
REFERENCES = {"er": er, "der++": derpp}
Loop = Iterator[float | Result]


def workload(data_dir: str | None, limit: int, test: int) -> Stream:
    """Split CIFAR-10 with the first training and test images of each class; nothing is held out."""
    settings = {"name": "split-cifar10", "validation": 0, **({"data_dir": data_dir} if data_dir else {})}
    stream = esacl.open_stream(esacl.Config.from_mapping({"stream": settings}).stream, 0)

    def first(examples: Examples, count: int) -> Examples:
        groups = rows_by_class(examples.y, len(stream.class_names))
        return examples.take(torch.cat([Limit(count, "first").of(rows) for rows in groups]).sort().values)

    tasks = tuple(replace(task, train=first(task.train, limit), test=first(task.test, test)) for task in stream.tasks)
    return replace(stream, tasks=tasks, stages=tasks)


def settings_of(method: str, seed: int, given: argparse.Namespace, stream: Stream) -> esacl.Config:
    """Our run, with every default spelt out."""
    tables: dict[str, Any] = {
        "method": method,
        "seed": seed,
        "stream": {"name": stream.name, "validation": 0, "limit_order": "first", "limit_per_class": given.limit},
        "net": {"backbone": "resnet18", "width": WIDTH},
        "train": {"epochs": given.epochs, "batch_size": BATCH, "logit_mask": given.mask, "columns": "all"},
        "machine": {"device": "cpu", "threads": 1},
    }
    if method != "finetune":
        tables["objective"] = {"buffer": BUFFER}
    for assignment in given.set:
        set_option(tables, assignment)
    return resolve(esacl.Config.from_mapping(tables), stream)


def ours(config: esacl.Config, stream: Stream, out: Path) -> Loop:
    """The library's run: CPU seconds of each epoch up to its last step (no checkpoint), and at last the result."""
    seconds: list[list[float]] = []
    began = stepped = process_time()
    for event in esacl.iter_run(config, out, stream):
        if isinstance(event, TaskStarted):
            seconds.append([])
            began = process_time()
        elif isinstance(event, StepDone):
            stepped = process_time()
        elif isinstance(event, EpochDone):
            seconds[-1].append(stepped - began)
            yield seconds[-1][-1]
            began = process_time()
        elif isinstance(event, Finished):
            results = event.results
            yield Result(results.class_il or 0.0, results.task_il, seconds)


def loops(config: esacl.Config, stream: Stream, lr: float, out: Path) -> dict[str, Loop]:
    """The loops of one comparison: bare, reference (of methods that have one) and ours."""
    inputs = stream.inputs
    settings = Settings(
        lr=lr,
        epochs=config.train.epochs,
        batch=BATCH,
        buffer=BUFFER,
        mask=config.train.fit_loss == "ace",
        seed=config.seed,
        mean=inputs.mean,
        std=inputs.std,
        padding=inputs.padding,
        flip=inputs.flip,
    )
    tasks = reference_tasks(stream)
    fresh = [resnet18(WIDTH, len(stream.class_names), config.seed) for _ in range(2)]
    found = {"bare": bare(tasks, fresh[0], settings)}
    if config.method in REFERENCES:
        weights = {name: config.options["objective"][name] for name in ("alpha", "beta") if config.method == "der++"}
        found["reference"] = REFERENCES[config.method](tasks, fresh[1], settings, **weights)
    return {**found, "ours": ours(config, stream, out)}


def reference_tasks(stream: Stream) -> list[Task]:
    """The tasks of a stream as plain tensors."""
    return [Task(task.classes, task.train.x, task.train.y, task.test.x, task.test.y) for task in stream.tasks]


def compare(found: dict[str, Loop], epochs: int) -> dict[str, dict[str, Any]]:
    """Run the loops in alternation, an epoch of each at a time; what each has to show."""
    for number in range(epochs):
        for loop in found.values():
            next(loop)
        print(f"  epoch {number + 1} of {epochs}", end="\r", file=sys.stderr, flush=True)
    results = {name: next(loop) for name, loop in found.items()}
    later = {name: sum(map(sum, result.seconds[1:])) for name, result in results.items()}
    return {
        name: {"class_il": result.class_il, "task_il": result.task_il, "times_bare": later[name] / later["bare"],
               "cpu_seconds": [[round(s, 3) for s in task] for task in result.seconds]}
        for name, result in results.items()
    }  # fmt: skip


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The comparisons that are in a file of JSON lines, gzipped where its name ends in .gz."""
    if not path.exists():
        return []
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines()]


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Replace the file by these comparisons."""
    data = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def run_missing(given: argparse.Namespace) -> None:
    """Run every comparison that is asked for and is not in the file yet."""
    torch.set_num_threads(1)
    stream = workload(given.data_dir, given.limit, given.test)
    for seed in given.seeds:
        for method in given.methods:
            config = settings_of(method, seed, given, stream)
            asked = {
                "limit": given.limit,
                "test": given.test,
                "reference_lr": given.lr,
                "settings": {name: value for name, value in config.flat().items() if not name.startswith("machine.")},
            }
            rows = read_rows(given.out)
            name = f"{method}, logit mask {given.mask}, seed {seed}"
            if any(all(row[key] == value for key, value in asked.items()) for row in rows):
                print(f"{name}: in {given.out} already", file=sys.stderr)
                continue
            print(name, file=sys.stderr)
            with TemporaryDirectory() as folder:
                found = loops(config, stream, given.lr, Path(folder) / "run")
                measured = compare(found, len(stream.tasks) * config.train.epochs)
            versions = {"esacl": esacl.__version__, "torch": torch.__version__, "python": platform.python_version()}
            write_rows(given.out, [*read_rows(given.out), {**asked, "loops": measured, "versions": versions}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/parity.jsonl"), help="raw results, read and added to")
    parser.add_argument("--data-dir", help="folder that holds CIFAR-10 (default: $ESACL_DATA, then ./data)")
    parser.add_argument("--methods", nargs="+", default=["er", "der++"], help="methods of the library")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--mask", choices=["none", "batch"], default="none", help="logit mask of all loops")
    parser.add_argument("--lr", type=float, default=0.03, help="learning rate of the reference and the bare loop")
    parser.add_argument("--set", action="append", default=[], help="a setting of ours: part.key=value (repeatable)")
    parser.add_argument("--limit", type=int, default=500, help="training images a class")
    parser.add_argument("--test", type=int, default=1000, help="test images a class")
    parser.add_argument("--epochs", type=int, default=5, help="epochs a task")
    parser.add_argument("--page", action="store_true", help=f"run nothing; write the table of --out into {PAGE.name}")
    given = parser.parse_args()
    try:
        if given.page:
            write_page(PAGE, read_rows(given.out))
        else:
            run_missing(given)
            print(table(read_rows(given.out)))
    except EsaclError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
