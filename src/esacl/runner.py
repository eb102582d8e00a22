"""One run, end to end: data → network → training → figures → files."""

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from esacl.artifacts import Results, RunDirectory
from esacl.assembly import assemble
from esacl.config import Config
from esacl.errors import CheckpointError, ConfigError, EsaclError
from esacl.machine import check_processes, divided, machine, resolve_machine
from esacl.metrics.accuracy import average_accuracy, backward_transfer, forgetting, forward_transfer, pruning_drops
from esacl.metrics.capacity import capacity, measured_capacity, overall_density
from esacl.metrics.cost import flops
from esacl.metrics.memory import footprint, peak_memory_bytes, reset_peak_memory, tensor_bytes
from esacl.nets.shares import Shares
from esacl.processes.job import agree
from esacl.processes.team import team
from esacl.recipes import check_settings, method, resolve
from esacl.report import write_report
from esacl.streams import Stream, absolute, open_stream
from esacl.streams.images import Progress
from esacl.training.events import EpochDone, Event, StepDone, TaskDone
from esacl.version import __version__

Listener = Callable[[Event], None]

ELSEWHERE = {"stream.data_dir", "machine.device", "machine.processes"}
"""Settings that may change between a stop and a resume: where the data are, where and by how many it computes."""


class Run:
    """A run in its directory. Iterate over `events()` to train it, then `finish()`."""

    def __init__(
        self, directory: RunDirectory, config: Config, stream: Stream, device: torch.device, began: float
    ) -> None:
        self.directory = directory
        self.config = config
        self.stream = stream
        self.device = device
        self.fingerprint = stream.fingerprint()
        self.notes: list[str] = []  # what people should know about how the run was continued
        self._began = began
        self._reading = perf_counter() - began
        self._earlier = 0.0  # seconds of the processes before this one
        self._peak = 0  # memory that they took
        processes = config.machine.processes
        self.trainer = assemble(config, stream, device, shares=Shares(0, processes) if processes > 1 else None)
        self.trainer.seconds["data"] = self._reading
        self._saved = 0

    def restore(self) -> None:
        """Continue from the newest whole checkpoint; without any, from the beginning."""
        state, problems = self.directory.checkpoints.newest()
        going_on = "Continuing from the one before it." if state else "There is no other: starting from the beginning."
        self.notes += [*problems, *([going_on] if problems else [])]
        if state is None:
            self.directory.rewind_events(0)
            return
        if state["fingerprint"] != self.fingerprint:
            raise CheckpointError(
                f"the data of {self.config.stream.name!r} are not those that the run in {str(self.directory.path)!r} "
                f"was started with. Give back the same data, or start a new run."
            )
        self._check_settings(state["config"])
        self.trainer.load_state_dict(state["trainer"])
        self._peak = state["peak_memory_bytes"]
        self.trainer.seconds["data"] += self._reading
        self._earlier = state["seconds"]
        self._saved = state["number"]
        self.directory.rewind_events(state["event_bytes"])

    def _check_settings(self, before: dict[str, Any]) -> None:
        """Refuse to continue with other settings than the run was started with."""
        now, then = self.config.flat(), Config.from_mapping(before).flat()
        several = {"machine.threads"} if now["machine.processes"] != then["machine.processes"] else set()
        for name in sorted({*now, *then} - ELSEWHERE - several):
            if now.get(name) != then.get(name):
                raise CheckpointError(
                    f"config.toml of {str(self.directory.path)!r} says {name} = {now.get(name)!r}, but the run was "
                    f"started with {then.get(name)!r}. Set it back, or start a new run with `esacl run --config`."
                )

    def events(self) -> Iterator[Event]:
        """Train to the end; every epoch and task is logged and saved before it is told."""
        for event in self.trainer.run():
            if not isinstance(event, StepDone):
                agree(self.trainer)
                self.directory.append_event(_as_json(event))
                self._save()
            yield event

    def _save(self) -> None:
        self._saved += 1
        state = {
            "number": self._saved,
            "fingerprint": self.fingerprint,
            "event_bytes": self.directory.event_bytes(),
            "seconds": self._elapsed(),
            "peak_memory_bytes": self._peak_memory(),
            "config": self.config.to_mapping(),
            "trainer": self.trainer.state_dict(),
        }
        self.directory.checkpoints.save(self._saved, state)

    def _peak_memory(self) -> int:
        return max(self._peak, peak_memory_bytes(self.device))

    def _elapsed(self) -> float:
        return self._earlier + perf_counter() - self._began

    def finish(self) -> Results:
        """Write weights, results and report of a trained run."""
        net, parts = self.trainer.net, self.trainer.parts
        state = net.model.state_dict() if parts.sparsity.needs_task_id else net.effective_state()
        about = {
            "classes": list(self.stream.class_names),
            "shape": list(self.stream.shape),
            "tasks": [list(task.classes) for task in self.stream.tasks],
            "inputs": {**asdict(self.stream.inputs), "bytes": self.stream.tasks[0].train.x.dtype == torch.uint8},
        }
        beside = {f"sparsity.{name}": value for name, value in parts.sparsity.belongings().items()}
        weights = {**parts.readout.folded(state), **beside}
        self.directory.write_weights(weights, {**about, "config": self.config.to_mapping()})
        results = self._results()
        self.directory.write_results(results)
        write_report([self.directory.path], self.directory.report)
        return results

    def _results(self) -> Results:
        trainer, config, stream = self.trainer, self.config, self.stream
        net, sparsity = trainer.net, trainer.parts.sparsity
        untrained = trainer.untrained
        assert untrained is not None
        task_rows = [list(row.task_il) for row in trainer.rows]
        class_rows = [list(row.class_il) for row in trainer.rows if row.class_il is not None] or None
        matrix: dict[str, list[list[float]] | None] = {"task_il": task_rows, "class_il": class_rows}
        start = asdict(untrained)
        shares = sparsity.density(net)
        sizes = {name: net.stored[name].numel() for name in shares}
        density = overall_density(shares, sizes)
        meter = net.meter
        return Results(
            method=config.method,
            stream=config.stream.name,
            seed=config.seed,
            sparsity=sparsity.target,
            epochs=config.train.epochs,
            tasks=len(stream.tasks),
            logit_mask=config.train.logit_mask,
            split=config.train.split,
            task_il=average_accuracy(task_rows),
            class_il=average_accuracy(class_rows) if class_rows else None,
            matrix=matrix,
            forgetting={name: forgetting(m) if m else None for name, m in matrix.items()},
            bwt={name: backward_transfer(m) if m else None for name, m in matrix.items()},
            fwt={name: self._forward_transfer(m, start[name]) for name, m in matrix.items()},
            density=density,
            capacity=capacity(density, len(stream.tasks), sparsity.stores_masks),
            flops=flops(trainer.paper_macs, meter.sparse_macs["train"], meter.executed_macs["train"]),
            seconds={"total": self._elapsed(), **trainer.seconds},
            peak_memory_bytes=self._peak_memory(),
            footprint_bytes=footprint(net, meter.largest_step),
            measured_capacity=measured_capacity(density, sizes, sparsity.masks(net), sparsity.belongings()),
            remembered_bytes=tensor_bytes(trainer.parts.state_dict()),
            task_classes=[[stream.class_names[column] for column in task.classes] for task in stream.tasks],
            pruning_drop=self._pruning_drop(matrix),
            versions={"esacl": __version__, "torch": torch.__version__, "python": platform.python_version()},
        )

    def _forward_transfer(self, rows: list[list[float]] | None, untrained: Sequence[float] | None) -> float | None:
        """Not defined for a readout that can only answer what it has seen."""
        if rows is None or untrained is None or not self.trainer.parts.readout.answers_unseen:
            return None
        return forward_transfer(rows, untrained)

    def _pruning_drop(self, after: dict[str, list[list[float]] | None]) -> dict[str, list[float]]:
        """What one-shot pruning cost, where there was any."""
        before = {name: [asdict(row)[name] for row in self.trainer.unpruned] for name in after}
        return {name: pruning_drops(before[name], rows) for name, rows in after.items() if rows and before[name]}


@contextmanager
def start(
    config: Config,
    out: Path,
    stream: Stream | None = None,
    overwrite: bool = False,
    reading: Progress | None = None,
) -> Iterator[Run]:
    """A new run in the directory `out`; a stream of one's own may be given instead of a name."""
    began = perf_counter()
    if not isinstance(config, Config):
        raise ConfigError(f"a run takes a Config, but {config!r} was given. Write esacl.Config.of(method=..., ...).")
    directory = RunDirectory(out)
    directory.check_free(overwrite)
    stream, config = _prepare(config, stream, reading)
    with machine(config.machine) as device:
        opened = Run(directory, config, stream, device, began)  # refuses what cannot be built while all is as it was
        with directory.locked():
            directory.begin(config, overwrite)
            reset_peak_memory(device)
            try:
                with team(opened.trainer, config, directory):
                    yield opened
            except EsaclError:
                if not directory.checkpoints.numbers():
                    directory.abandon()
                raise


@contextmanager
def reopen(
    out: Path, stream: Stream | None = None, reading: Progress | None = None, processes: int | None = None
) -> Iterator[Run]:
    """The run in the directory `out`, where it stopped; by another number of processes than before, if one is given."""
    began = perf_counter()
    directory = RunDirectory(out)
    recorded = directory.config()
    if processes is not None:
        recorded = replace(recorded, machine=divided(recorded.machine, processes))
    stream, config = _prepare(recorded, stream, reading)
    with directory.locked(), machine(config.machine) as device:
        reset_peak_memory(device)
        opened = Run(directory, config, stream, device, began)
        opened.restore()
        if processes is not None:
            directory.record(config)
        with team(opened.trainer, config, directory):
            yield opened


def run(
    config: Config,
    out: Path | str,
    stream: Stream | None = None,
    overwrite: bool = False,
    listen: Listener | None = None,
) -> Results:
    """Train and evaluate a method on a stream; everything is in `out` afterwards."""
    with start(config, Path(out), stream, overwrite) as opened:
        return _complete(opened, listen)


def resume(
    out: Path | str, stream: Stream | None = None, listen: Listener | None = None, processes: int | None = None
) -> Results:
    """Continue a run that was interrupted; the result is that of a run that was not."""
    directory = RunDirectory(Path(out))
    finished = directory.read_results()
    if finished is not None:
        if not directory.report.exists():
            write_report([directory.path], directory.report)
        return finished
    with reopen(directory.path, stream, processes=processes) as opened:
        return _complete(opened, listen)


def _complete(opened: Run, listen: Listener | None) -> Results:
    for event in opened.events():
        if listen is not None:
            listen(event)
    return opened.finish()


def _prepare(config: Config, stream: Stream | None, reading: Progress | None) -> tuple[Stream, Config]:
    """The stream and the resolved settings; what can be refused is refused before any data are read."""
    check_settings(config)
    check_processes(replace(config, machine=resolve_machine(config.machine)))
    if stream is None:
        if config.stream.name.partition(":")[0] == "arrays":
            raise ConfigError("this run learns from arrays: continue it in Python, with esacl.resume(out, stream=...).")
        config = replace(config, stream=absolute(config.stream))
        stream = open_stream(config.stream, config.seed, reading)
    else:
        config = replace(config, stream=replace(config.stream, name=stream.name))
    if getattr(method(config.method).part("objective"), "joint", False):
        stream = stream.joint()
    tasks, classes = len(stream.tasks), len(stream.tasks[0].classes)
    config = replace(config, stream=replace(config.stream, tasks=tasks, classes_per_task=classes))
    resolved = resolve(config, stream)
    machine_config = resolve_machine(config.machine, small=resolved.net.backbone == "mlp")
    return stream, replace(resolved, machine=machine_config)


def _as_json(event: EpochDone | TaskDone) -> dict[str, Any]:
    if isinstance(event, TaskDone):
        return {"event": "task", "task": event.task, **asdict(event.accuracies)}
    return {"event": "epoch", **asdict(event)}
