"""A run in its directory: trained, logged and saved as it goes, and finished with its figures."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from time import perf_counter
from typing import Any

import torch

from esacl.artifacts import Results, RunDirectory
from esacl.assembly import assemble
from esacl.config import Config
from esacl.documents import Amount, Count, as_record
from esacl.errors import CheckpointError, ConfigError
from esacl.methods import Method
from esacl.metrics.memory import peak_memory_bytes
from esacl.nets import OwnNet
from esacl.nets.data_parallel import Shares
from esacl.processes.job import agree
from esacl.report import write_report
from esacl.runner.results import figures
from esacl.streams import Stream
from esacl.training.checkpoint import Unfit, taking_over
from esacl.training.events import EpochDone, Event, StepDone, TaskDone, as_json
from esacl.training.trainer import Trainer
from esacl.types import State

ELSEWHERE = {"stream.data_dir", "net.weights", "machine.device", "machine.processes"}
"""Settings that may change between a stop and a resume: where the data are, where and by how many it computes."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a checkpoint of a run holds."""

    number: Count
    fingerprint: str  # of the data
    event_bytes: Count
    seconds: Amount
    peak_memory_bytes: Count
    config: dict[str, Any]
    trainer: dict[str, Any]

    @staticmethod
    def of(state: State) -> "Saved":
        """A state that was read; Unfit where it is not that of a run."""
        with taking_over("the checkpoint"):
            saved = as_record(state, Saved)
        try:
            _ = saved.settings
        except ConfigError as error:
            raise Unfit(f"the checkpoint holds settings that this version does not know: {error}") from None
        return saved

    @property
    def settings(self) -> Config:
        """The settings it was saved with."""
        return Config.from_mapping(self.config)


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
        fresh: bool = True,
    ) -> None:
        self.directory = directory
        self.config = config
        self.stream = stream
        self.device = device
        self.fingerprint = stream.fingerprint()
        self.notes = [  # what people should know about network and data, and how the run was continued
            f"training images are changed by code of your own, {name}: results depend on it."
            for name in config.stream.transforms
        ]
        if own is not None and own.replaced is not None:
            head = f"{len(stream.class_names)} columns"
            self.notes.append(f"{own.replaced} is the head of {own.name}: one of this library, of {head}, replaces it.")
        self._own = own
        self._began = began
        self._reading = perf_counter() - began
        self._earlier = 0.0  # seconds of the processes before this one
        self._peak = 0  # memory that they took
        self._method = method
        self._saved = 0
        self._fresh = fresh  # whether it begins here: else its weights are in a checkpoint
        self.trainer = self._assembled(fresh)
        self.trainer.seconds["data"] = self._reading
        if self.trainer.net.model.report is not None:
            self.notes.append(self.trainer.net.model.report)

    def _assembled(self, fresh: bool, alone: bool = False) -> Trainer:
        """A trainer at the beginning, or one that will be given a state; one that is alone has all of every step."""
        processes = 1 if alone else self.config.machine.processes
        shares = Shares(0, processes) if processes > 1 else None
        return assemble(
            self.config, self.stream, self.device, own=self._own, shares=shares, method=self._method, fresh=fresh
        )

    def restore(self) -> None:
        """Continue from the newest whole checkpoint; without any, from the beginning."""
        self.directory.rewind_events(self.load())

    def load(self) -> int:
        """Be where the newest whole checkpoint is; returns how long the event log was then. Nothing is written."""
        state, problems = self.directory.checkpoints.newest(self._take)
        going_on = "Continuing from the one before it." if state else "There is no other: starting from the beginning."
        self.notes += [*problems, *([going_on] if problems else [])]
        if state is None and not self._fresh:
            self.trainer = self._assembled(fresh=True)
        return 0 if state is None else int(state["event_bytes"])

    def _take(self, state: State) -> None:
        """Be where that state is; Unfit where nobody can be."""
        saved = Saved.of(state)
        if saved.fingerprint != self.fingerprint:
            raise CheckpointError(
                f"the data of {self.config.stream.name!r} are not those that the run in {str(self.directory.path)!r} "
                f"was started with. Give back the same data, or start a new run."
            )
        self._check_settings(saved.settings)
        where = f"the run in {str(self.directory.path)!r}"
        trainer = self._assembled(fresh=False)  # a new one, as half of a state may be in the last already
        with taking_over(f"checkpoint {saved.number} of {where}"):
            if self._own is not None:
                self._own.check_is_of(saved.trainer["net"]["model"], where)
            self._try(saved.trainer)
            trainer.load_state_dict(saved.trainer)
        self.trainer = trainer
        self.trainer.seconds["data"] += self._reading
        self._peak, self._earlier, self._saved = saved.peak_memory_bytes, saved.seconds, saved.number

    def _try(self, state: State) -> None:
        """Take one step from that state, on a copy: what does not fit together fails there, but for parts of a user."""
        copy = self._assembled(fresh=False, alone=True)
        if copy.parts.are_own:
            copy.load_state_dict(deepcopy(state))
            copy.try_step()

    def _check_settings(self, before: Config) -> None:
        """Refuse to continue with other settings than the run was started with."""
        now, then = self.config.flat(), before.flat()
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
        state = Saved(
            number=self._saved,
            fingerprint=self.fingerprint,
            event_bytes=self.directory.event_bytes(),
            seconds=self._elapsed(),
            peak_memory_bytes=self._peak_memory(),
            config=self.config.to_mapping(),
            trainer=self.trainer.state_dict(),
        )
        self.directory.checkpoints.save(self._saved, {each.name: getattr(state, each.name) for each in fields(state)})

    def _peak_memory(self) -> int:
        return max(self._peak, peak_memory_bytes(self.device))

    def _elapsed(self) -> float:
        return self._earlier + perf_counter() - self._began

    def finish(self) -> Results:
        """Write weights, results and report of a trained run."""
        net, parts = self.trainer.net, self.trainer.parts
        about = {
            "classes": list(self.stream.class_names),
            "shape": list(self.stream.shape),
            "tasks": [list(task.classes) for task in self.stream.tasks],
            "inputs": {**asdict(self.stream.inputs), "bytes": self.stream.tasks[0].train.x.dtype == torch.uint8},
        }
        beside = {f"sparsity.{name}": value for name, value in parts.task_state().items()}
        with parts.average.answering(net):
            state = net.model.state_dict() if parts.sparsity.needs_task_id else net.effective_state()
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
