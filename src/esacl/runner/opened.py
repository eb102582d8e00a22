"""A run in its directory: trained, logged and saved as it goes, and finished with its figures."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any

import torch

from esacl.artifacts import Results, RunDirectory
from esacl.assembly import assemble
from esacl.config import Config
from esacl.errors import CheckpointError
from esacl.methods import Method
from esacl.metrics.memory import peak_memory_bytes
from esacl.nets import OwnNet
from esacl.nets.shares import Shares
from esacl.processes.job import agree
from esacl.report import write_report
from esacl.runner.figures import figures
from esacl.streams import Stream
from esacl.training.events import EpochDone, Event, StepDone, TaskDone, as_json

ELSEWHERE = {"stream.data_dir", "machine.device", "machine.processes"}
"""Settings that may change between a stop and a resume: where the data are, where and by how many it computes."""


class Run:
    """A run in its directory. Iterate over `events()` to train it, then `finish()`."""

    def __init__(
        self,
        directory: RunDirectory,
        config: Config,
        stream: Stream,
        device: torch.device,
        began: float,
        own: OwnNet | None = None,
        method: Method | None = None,
    ) -> None:
        self.directory = directory
        self.config = config
        self.stream = stream
        self.device = device
        self.fingerprint = stream.fingerprint()
        self.notes: list[str] = []  # what people should know about the network, and how the run was continued
        if own is not None and own.replaced is not None:
            head = f"{len(stream.class_names)} columns"
            self.notes.append(f"{own.replaced} is the head of {own.name}: one of this library, of {head}, replaces it.")
        self._own = own
        self._began = began
        self._reading = perf_counter() - began
        self._earlier = 0.0  # seconds of the processes before this one
        self._peak = 0  # memory that they took
        processes = config.machine.processes
        shares = Shares(0, processes) if processes > 1 else None
        self.trainer = assemble(config, stream, device, own=own, shares=shares, method=method)
        self.trainer.seconds["data"] = self._reading
        self._saved = 0

    def restore(self) -> None:
        """Continue from the newest whole checkpoint; without any, from the beginning."""
        self.directory.rewind_events(self.load())

    def load(self) -> int:
        """Be where the newest whole checkpoint is; returns how long the event log was then. Nothing is written."""
        state, problems = self.directory.checkpoints.newest()
        going_on = "Continuing from the one before it." if state else "There is no other: starting from the beginning."
        self.notes += [*problems, *([going_on] if problems else [])]
        if state is None:
            return 0
        if state["fingerprint"] != self.fingerprint:
            raise CheckpointError(
                f"the data of {self.config.stream.name!r} are not those that the run in {str(self.directory.path)!r} "
                f"was started with. Give back the same data, or start a new run."
            )
        self._check_settings(state["config"])
        if self._own is not None:
            self._own.check_is_of(state["trainer"]["net"]["model"], f"the run in {str(self.directory.path)!r}")
        self.trainer.load_state_dict(state["trainer"])
        self._peak = state["peak_memory_bytes"]
        self.trainer.seconds["data"] += self._reading
        self._earlier = state["seconds"]
        self._saved = state["number"]
        return int(state["event_bytes"])

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
        """Train to the end; all but steps are logged, and epochs and tasks saved, before they are told."""
        for event in self.trainer.run():
            saved = isinstance(event, EpochDone | TaskDone)
            if saved:
                agree(self.trainer)
            if not isinstance(event, StepDone):
                self.directory.append_event(as_json(event))
            if saved:
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
        beside = {f"sparsity.{name}": value for name, value in parts.belongings().items()}
        weights = {**parts.readout.folded(state), **beside}
        told = self.directory.write_weights(weights, {**about, "config": self.config.to_mapping()})
        results = figures(self.trainer, self.config, self._elapsed(), self._peak_memory())
        results = replace(results, weights_sha256=told)
        shares = {name: getattr(results, name) for name in ("task_il", "class_il", "density")}
        self.directory.append_event({"event": "finished", **shares})  # dropped and told again by a run that dies here
        self.directory.write_results(results)
        self.directory.check_held()
        write_report([self.directory.path], self.directory.report)
        return results
