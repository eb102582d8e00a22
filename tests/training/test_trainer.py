from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.config import PartsConfig, TrainConfig
from esacl.nets import Network
from esacl.objectives.base import Objective
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.options import NoOptions
from esacl.part import Part
from esacl.readouts.base import Readout
from esacl.selection.base import DataSelector
from esacl.sparsity.base import DenseOptions, Phase, SparsityStrategy
from esacl.streams.base import Examples, Task
from esacl.training.events import EpochDone, StepDone, TaskDone
from esacl.types import Context, Params
from tests.builders import finish, same, stream, trainer, weights


def fakes(log: list[str]) -> dict[str, Callable[[Context], Part]]:
    """Parts that write down when they are called."""

    class FakeObjective(Objective):
        def begin_task(self, net: Network, task: Task) -> None:
            super().begin_task(net, task)
            log.append(f"objective begins {task.index}")

        def end_task(self, net: Network, task: Task) -> None:
            log.append(f"consolidate {task.index}")

    class FakeSparsity(SparsityStrategy):
        def attach(self, net: Network) -> None:
            log.append("attach")

        def next_phase(self, task: int, done: int) -> Phase | None:
            log.append(f"phase {done}?")
            return [Phase("fit", 2), Phase("retrain", 1), None][done]

        def begin_task(self, net: Network, task: Task) -> None:
            log.append(f"expand {task.index}")

        def begin_epoch(self, net: Network, epoch: int) -> None:
            log.append(f"epoch {epoch}")

        def end_phase(self, net: Network, task: Task, phase: Phase) -> None:
            log.append(f"end of {phase.name}")

        def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
            log.append(f"prune {task.index}")

    class FakeGradient(GradientRule):
        def begin_task(self) -> None:
            log.append("gradient begins")

    class FakeConstraint(StepConstraint):
        def end_task(self, net: Network, task: Task) -> None:
            log.append(f"constrain {task.index}")

    class FakeSelection(DataSelector):
        def begin_task(self, examples: int) -> None:
            log.append(f"select among {examples}")

        def epoch_subset(self, examples: int, epoch: int) -> Tensor | None:
            log.append(f"subset of {examples} in epoch {epoch} of the task")
            return None

    class FakeReadout(Readout):
        def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
            log.append(f"fit readout {task.index}")

        def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
            log.append("evaluate")
            return super().logits(net, x, task)

    kinds: dict[str, type[Part]] = {
        "objective": FakeObjective,
        "gradient": FakeGradient,
        "sparsity": FakeSparsity,
        "constraint": FakeConstraint,
        "selection": FakeSelection,
        "readout": FakeReadout,
    }
    return {slot: (lambda known, kind=kind: kind(NoOptions(), known)) for slot, kind in kinds.items()}


def test_the_order_at_a_task_boundary_is_prune_constrain_consolidate_fit_readout_evaluate_and_then_expand() -> None:
    log: list[str] = []
    training = trainer("finetune", of=stream(tasks=2), replacing=fakes(log))
    for event in training.run():
        if isinstance(event, TaskDone):
            log.append(f"task {event.task} told")  # noqa: PERF401 (the parts write to it meanwhile)
    assert log[0] == "attach"
    assert log[1:3] == ["evaluate", "evaluate"]  # the untrained network, on both tasks
    once = [
        "phase 0?",
        "epoch 0",
        "subset of 24 in epoch 0 of the task",
        "epoch 1",
        "subset of 24 in epoch 1 of the task",
        "end of fit",
        "phase 1?",
        "epoch 0",
        "subset of 24 in epoch 2 of the task",
        "end of retrain",
        "phase 2?",
    ]
    expected = []
    for task in (0, 1):
        expected += [f"expand {task}", f"objective begins {task}", "gradient begins", "select among 24", *once]
        expected += [f"prune {task}", f"constrain {task}", f"consolidate {task}", f"fit readout {task}"]
        expected += ["evaluate", "evaluate", f"task {task} told"]
    assert log[3:] == expected


def test_events_tell_every_step_epoch_and_task() -> None:
    training = trainer("er", train=TrainConfig(epochs=2, batch_size=10))
    events = list(training.run())
    steps = [e for e in events if isinstance(e, StepDone)]
    epochs = [e for e in events if isinstance(e, EpochDone)]
    tasks = [e for e in events if isinstance(e, TaskDone)]
    assert [(e.task, e.epoch, e.samples) for e in steps[:6]] == [
        (0, 0, 10),
        (0, 0, 10),
        (0, 0, 4),
        (0, 1, 10),
        (0, 1, 10),
        (0, 1, 4),
    ]
    assert [(e.task, e.phase, e.epoch, e.epochs, e.samples) for e in epochs] == [
        (task, "fit", epoch, 2, 24) for task in range(3) for epoch in range(2)
    ]
    assert [e.task for e in tasks] == [0, 1, 2]
    assert [e.accuracies for e in tasks] == training.rows
    for epoch, start in zip(epochs, range(0, 18, 3)):
        assert epoch.loss == pytest.approx(sum(e.loss.item() for e in steps[start : start + 3]) / 3, rel=1e-5)


def test_the_history_has_a_row_for_every_task_and_learning_shows_in_it() -> None:
    training = finish(trainer("er", train=TrainConfig(epochs=4, batch_size=8)))
    assert training.finished
    assert training.untrained is not None
    assert len(training.rows) == 3
    assert all(len(row.task_il) == len(row.class_il or ()) == 3 for row in training.rows)
    for number, row in enumerate(training.rows):
        assert row.task_il[number] > 0.85
    assert sum(training.untrained.task_il) / 3 < 0.8


def test_a_finished_run_has_nothing_more_to_tell() -> None:
    training = finish(trainer("finetune"))
    before = weights(training.net)
    assert list(training.run()) == []
    assert same(weights(training.net), before)
    assert len(training.rows) == 3


def test_samples_and_cost_are_what_was_planned_and_called() -> None:
    training = finish(trainer("er", {"objective": {"replay_batch": 4}}, parts=PartsConfig(readout="own")))
    meter, examples = training.net.meter, 3 * 2 * 24
    assert training.samples == training.planned_samples() == examples
    assert training.paper_macs == pytest.approx(3 * examples * meter.dense, rel=1e-3)
    replayed = 2 * 2 * 3 * 4  # two later tasks, two epochs, three steps
    assert meter.executed_macs["train"] == 3 * (examples + replayed) * meter.dense
    assert meter.executed_macs["evaluate"] == 4 * 3 * 14 * meter.dense
    assert meter.largest_step == 12


def test_credit_is_given_for_zeros_that_a_strategy_makes_from_the_next_epoch_on() -> None:
    class Halves(SparsityStrategy):
        views_weights = True

        def view(self, params: Params, task: int | None) -> Params:
            weight = params["backbone.first.weight"]
            keep = (torch.arange(weight.numel()) % 2).view_as(weight)
            return {**params, "backbone.first.weight": weight * keep}

    training = finish(trainer("finetune", replacing={"sparsity": lambda known: Halves(DenseOptions(), known)}))
    meter = training.net.meter
    first = meter.layers["backbone.first"]
    assert meter.sparse == pytest.approx(meter.dense - first / 2)
    assert meter.sparse_macs["train"] == pytest.approx(3 * 144 * meter.sparse)
    assert training.paper_macs == pytest.approx(3 * 144 * meter.sparse)
    assert meter.executed_macs["train"] == 3 * 144 * meter.dense


@pytest.mark.parametrize("prunes", [True, False])
def test_what_the_network_knew_before_it_was_pruned_is_told_of_strategies_that_prune(prunes: bool) -> None:
    class Forgets(SparsityStrategy):
        def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
            with torch.no_grad():
                for name in ("head.weight", "head.bias"):
                    net.stored[name].zero_()

    Forgets.prunes = prunes
    training = trainer(
        "finetune",
        replacing={"sparsity": lambda known: Forgets(DenseOptions(), known)},
        train=TrainConfig(epochs=4, batch_size=8, unpruned=True),
    )
    finish(training)
    assert [row.task_il for row in training.rows] == [(0.5, 0.5, 0.5)] * 3  # the first of two equal logits, always
    if not prunes:
        assert training.unpruned == []
        return
    assert len(training.unpruned) == 3
    assert all(row.task_il[number] > 0.85 for number, row in enumerate(training.unpruned))
    resumed = trainer("finetune", replacing={"sparsity": lambda known: Forgets(DenseOptions(), known)})
    resumed.load_state_dict(training.state_dict())
    assert resumed.unpruned == training.unpruned


def test_a_selection_trains_on_its_subset_only() -> None:
    class FirstTen(DataSelector):
        def epoch_subset(self, examples: int, epoch: int) -> Tensor | None:
            return torch.arange(10) if epoch > 0 else None

    seen: list[set[int]] = []

    class Noting(Objective):
        def after_step(self, net: Network, trace: Any) -> None:
            seen.append(set(trace.batch.index.tolist()))

    made: dict[str, Callable[[Context], Part]] = {
        "selection": lambda known: FirstTen(NoOptions(), known),
        "objective": lambda known: Noting(NoOptions(), known),
    }
    training = finish(trainer("finetune", of=stream(tasks=1), replacing=made))
    assert set.union(*seen[:3]) == set(range(24))
    assert set.union(*seen[3:]) == set(range(10))
    assert training.samples == 34


def test_a_state_without_the_seconds_of_training_is_refused() -> None:
    state = finish(trainer("finetune")).state_dict()
    del state["seconds"]["train"]
    with pytest.raises(KeyError, match="train"):
        trainer("finetune").load_state_dict(state)
