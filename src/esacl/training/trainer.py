"""The loop: tasks, phases, epochs, steps. It yields events, writes nothing, and can be stopped anywhere."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from time import perf_counter, process_time

import torch

from esacl.config import TrainConfig
from esacl.documents import Count, as_record
from esacl.nets.cache import Cache
from esacl.nets.network import Network
from esacl.sparsity.base import Phase
from esacl.streams.base import Examples, Stream, Task
from esacl.streams.loading import Loader, cuts
from esacl.training.budget import Pace, Trial, pace_of
from esacl.training.diverged import check_loss, solvable
from esacl.training.evaluate import Accuracies, evaluate
from esacl.training.events import EpochDone, Event, Pruned, StepDone, TaskDone, TaskStarted
from esacl.training.parts import Parts
from esacl.training.step import train_step
from esacl.types import State


@dataclass(slots=True)
class Position:
    """How far training has come: stages done, phases done in this stage, epochs done in this phase and stage."""

    stage: Count = 0
    phase: Count = 0
    epoch: Count = 0
    stage_epoch: Count = 0


class Trainer:
    """Trains a composition on a stream and evaluates it after every stage."""

    def __init__(self, net: Network, parts: Parts, stream: Stream, config: TrainConfig, seed: int) -> None:
        self.net = net
        self.parts = parts
        self.stream = stream
        self.config = config
        self.seed = seed
        self.position = Position()
        self.untrained: Accuracies | None = None  # what the network knows before it has seen anything
        self.rows: list[Accuracies] = []  # after each stage
        self.unpruned: list[Accuracies] = []  # after each stage, before it was pruned, if asked for
        self.paper_macs = 0.0
        self.samples = 0  # examples trained on so far
        self.seconds = {"train": 0.0, "evaluate": 0.0, "data": 0.0, "cpu": 0.0}  # cpu: of training, in this process
        self.pace = pace_of(config.budget, self.executed_flops, lambda: self.seconds["cpu"])
        self.optimizer: torch.optim.Optimizer | None = None
        self._optimizer_state: State | None = None  # of before, until there is an optimiser to take it
        parts.attach(net)

    @property
    def finished(self) -> bool:
        """Whether every stage is trained."""
        return self.position.stage == len(self.stream.stages)

    def executed_flops(self) -> float:
        """Executed in training so far."""
        return 2.0 * self.net.meter.executed_macs.get("train", 0)

    def planned_samples(self) -> int:
        """Examples that a run without a budget will train on, as far as can be told beforehand."""
        stages, mixed_in = [*map(self.parts.readout.lend, self.stream.stages)], self.parts.objective.mixed_in
        sizes = [len(stage.train) + mixed_in(stages[:number]) for number, stage in enumerate(stages)]
        return self.parts.sparsity.planned_epochs() * sum(sizes) if self.parts.objective.trains else 0

    def share_done(self) -> float:
        """How much of the run is done, as far as can be told."""
        done, whole = self.pace.done() or (self.samples, max(1, self.planned_samples()))
        return min(1.0, done / whole)

    def run(self) -> Iterator[Event]:
        """Train from the present position to the end."""
        if self.untrained is None:
            self.untrained = self._evaluate()
        while not self.finished:
            left = len(self.stream.stages) - self.position.stage
            if self.position.stage_epoch == 0:
                self.pace.begin_task(left, self.samples, self._trial, self.parts)
            with solvable(self.position.stage, self.parts.update.remedy):
                yield from self._stage(self.stream.stages[self.position.stage])

    def try_step(self) -> None:
        """Take one step, on a copy, to see whether a state of before can be gone on from."""
        if not self.finished:
            next((event for event in self.run() if isinstance(event, StepDone)), None)  # after the last step, none

    def _trial(self) -> Trial:
        """What the first steps of the coming task cost, without a cache; everything is as before afterwards."""
        state, pace, self.pace = deepcopy(self.state_dict()), self.pace, Pace()
        cache, self.net.cache = self.net.cache, Cache()
        spent, steps = [pace.spent()], 1
        with closing(self._stage(self.stream.stages[self.position.stage])) as events:
            for event in events:
                if isinstance(event, TaskStarted):
                    steps = len(cuts(event.examples, self.config.batch_size)) + 1
                spent += [pace.spent()] if isinstance(event, StepDone) else []
                if len(spent) > 2:
                    break
        self.load_state_dict(state)
        self.optimizer, self.pace, self.net.cache = None, pace, cache
        return Trial(spent[-1] - spent[-2], steps)

    def _stage(self, whole: Task) -> Generator[Event, None, None]:
        """One task. The order at its end is a contract: prune → consolidate → readout → evaluate → save."""
        parts, net, position = self.parts, self.net, self.position
        self.pace.tell(parts)
        stage = parts.readout.lend(whole)
        if position.stage_epoch == 0:
            net.cache.begin_task()
            with self._on_cpu():
                parts.begin_task(net, stage)
        examples = parts.objective.training_set(stage)
        if position.stage_epoch == 0:
            yield TaskStarted(stage.index, len(self.stream.stages), stage.classes, len(examples))
        size, views, copies = self.config.batch_size, parts.objective.views, self.config.augment_copies
        loader = Loader(self.stream, stage.index, examples, size, self.seed, net.device, views, copies)
        while parts.objective.trains and (phase := parts.sparsity.next_phase(stage.index, position.phase)) is not None:
            yield from self._phase(stage, phase, loader)
        remembered = parts.objective.buffer_examples()
        before = self._evaluate_unpruned(whole, remembered)
        with self._on_cpu():
            if kept := parts.sparsity.surviving_channels(net, stage):
                parts.narrow(net, kept)
            parts.sparsity.end_task(net, stage, remembered)
        density = self._update_density()
        if parts.sparsity.prunes:
            yield Pruned(stage.index, density, before)
        with self._on_cpu():
            parts.constraint.end_task(net, stage)
            parts.objective.end_task(net, stage)
            self._read_out(whole, parts.objective.buffer_examples())
        self.pace.end_task(self.samples, len(examples))
        self.rows.append(self._evaluate())
        self.position = Position(stage=position.stage + 1)
        yield TaskDone(stage.index, self.rows[-1], density)

    def _read_out(self, stage: Task, remembered: Examples | None) -> None:
        """Settle which weights answer, and fit the readout on them."""
        self.parts.average.end_task(self.net, stage, remembered)
        with self.parts.average.answering(self.net):
            self.parts.readout.fit(self.net, stage, remembered)

    def _phase(self, stage: Task, phase: Phase, loader: Loader) -> Iterator[Event]:
        parts, position = self.parts, self.position
        steps = phase.epochs * self.pace.steps(loader.steps(), last=False)
        self.optimizer = parts.update.build(self.net, parts.sparsity.frozen(), steps)
        for group in self.optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        if self._optimizer_state is not None:
            self.optimizer.load_state_dict(self._optimizer_state)
            self._optimizer_state = None
        while self.pace.goes_on(phase, position.epoch, parts):
            parts.sparsity.begin_epoch(self.net, position.epoch)
            self._update_density()
            yield from self._epoch(stage, phase, loader)
        with self._on_cpu():
            parts.sparsity.end_phase(self.net, stage, phase)
        self.pace.end_phase(phase)
        position.phase += 1
        position.epoch = 0
        self.optimizer = None

    def _epoch(self, stage: Task, phase: Phase, loader: Loader) -> Iterator[Event]:
        position, net = self.position, self.net
        assert self.optimizer is not None
        subset = self.parts.selection.epoch_subset(len(loader.examples), position.stage_epoch)
        there = loader.steps(None if subset is None else len(subset))
        steps = self.pace.steps(there, last=position.epoch + 1 >= phase.epochs)
        epochs = max(phase.epochs, position.epoch + 1)
        total, learnt = torch.zeros(2, device=net.device)
        data, samples, began = 0.0, 0, perf_counter()
        net.train_mode()
        batches = loader.epoch(position.stage_epoch, subset)
        for step in range(steps):
            if step and not self.pace.affords(phase, self.parts):
                steps = step
                break
            with self._on_cpu():
                asked = perf_counter()
                batch = next(batches)
                data += perf_counter() - asked
                self._schedule(self.pace.progress(phase, position.epoch + step / steps, self.parts))
                trace = train_step(net, self.parts, self.optimizer, batch)
            self.pace.end_step()
            own = (batch.index < len(stage.train)).float().mean()  # what is remembered stands behind it
            learnt += trace.updated * self.parts.gradient.glances * own
            total += trace.loss
            samples += len(batch)
            self.samples += len(batch)
            yield StepDone(stage.index, phase.name, position.epoch, epochs, len(batch), trace.loss)
        loss = total.item() / steps
        self.paper_macs += 3 * learnt.item() * net.meter.sparse
        check_loss(loss, stage.index, position.epoch, self.parts.update.remedy)
        seconds = perf_counter() - began
        self.seconds["data"] += data
        self.seconds["train"] += seconds - data
        position.epoch += 1
        position.stage_epoch += 1
        lr = self.optimizer.param_groups[-1]["lr"]  # the setting's, where there are several groups
        yield EpochDone(stage.index, phase.name, position.epoch - 1, epochs, loss, samples, lr, seconds)

    @contextmanager
    def _on_cpu(self) -> Iterator[None]:
        """Count the CPU time of training inside; that of whoever listens to the events is none of it."""
        began = process_time()
        try:
            yield
        finally:
            self.seconds["cpu"] += process_time() - began

    def _schedule(self, progress: float) -> None:
        assert self.optimizer is not None
        factor = self.parts.update.rate(progress)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def _update_density(self) -> float:
        """Tell the meter how dense each layer is now; returns how dense all are together."""
        density = self.parts.sparsity.density(self.net)
        layers = {name.removesuffix(".weight"): share for name, share in density.items()}
        self.net.meter.set_density(layers, self.parts.sparsity.dense_gradients)
        return self.net.in_use(density)

    def _evaluate_unpruned(self, stage: Task, remembered: Examples | None) -> Accuracies | None:
        """What the network that is about to be pruned knows, if asked for; nothing else is changed by it.

        It is recalibrated and read out as the pruned one will be: else the difference would not be pruning's alone.
        """
        net, parts = self.net, self.parts
        if not (self.config.unpruned and parts.sparsity.prunes and self.stream.tasks):
            return None
        began, counted = perf_counter(), self.seconds["evaluate"]
        model, fitted = deepcopy(net.model.state_dict()), (parts.average, parts.readout)
        states = [deepcopy(part.state_dict()) for part in fitted]
        with net.meter.account("evaluate"):
            parts.sparsity.recalibrate(net, stage, remembered)
            self._read_out(stage, remembered)
        self.unpruned.append(self._evaluate())
        net.model.load_state_dict(model)
        for part, state in zip(fitted, states):
            part.load_state_dict(state)
        self.seconds["evaluate"] = counted + perf_counter() - began
        return self.unpruned[-1]

    def _evaluate(self) -> Accuracies:
        began = perf_counter()
        with self.parts.average.answering(self.net):
            result = evaluate(self.net, self.parts.readout, self.stream, self.config.split, self.parts.needs_task)
        if self.config.scenario == "task-il":
            result = replace(result, class_il=None)
        self.seconds["evaluate"] += perf_counter() - began
        return result

    def state_dict(self) -> State:
        """Everything that the rest of the run depends on, at the end of an epoch or a task."""
        return {
            "position": asdict(self.position),
            "untrained": None if self.untrained is None else asdict(self.untrained),
            "rows": [asdict(row) for row in self.rows],
            "unpruned": [asdict(row) for row in self.unpruned],
            "paper_macs": self.paper_macs,
            "samples": self.samples,
            "seconds": dict(self.seconds),
            "net": self.net.state_dict(),
            "parts": self.parts.state_dict(),
            "optimizer": self._optimizer_state if self.optimizer is None else self.optimizer.state_dict(),
            "pace": self.pace.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before, whatever this trainer was built from."""
        self.position = as_record(state["position"], Position)
        if self.position.stage > len(self.stream.stages):
            raise ValueError(f"{self.position.stage} tasks are done of {len(self.stream.stages)}")
        self.untrained = None if state["untrained"] is None else as_record(state["untrained"], Accuracies)
        self.rows = as_record(state["rows"], list[Accuracies])
        self.unpruned = as_record(state["unpruned"], list[Accuracies])
        widths = {len(each) for row in self.rows for each in (row.task_il, row.class_il) if each is not None}
        if widths - {len(self.stream.tasks)}:
            raise ValueError(f"accuracies are not those of {len(self.stream.tasks)} tasks")
        self.paper_macs = as_record(state["paper_macs"], float)
        self.samples = as_record(state["samples"], int)
        seconds = as_record(state["seconds"], dict[str, float])
        self.seconds = {name: seconds[name] for name in self.seconds if name != "cpu"}
        self.seconds["cpu"] = seconds.get("cpu", 0.0)  # which checkpoints of before do not have
        self.net.load_state_dict(state["net"])
        self.parts.load_state_dict(state["parts"])
        self._optimizer_state = state["optimizer"]
        self.pace.load_state_dict(state.get("pace", {}))
