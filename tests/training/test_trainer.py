import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from esacl.config import NetConfig, TrainConfig
from esacl.errors import RunError
from esacl.nets import Network, build_model
from esacl.objectives.base import Objective
from esacl.objectives.readout import Readout
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.options import NoOptions
from esacl.part import Part
from esacl.recipes import METHODS
from esacl.selection.base import DataSelector
from esacl.sparsity.base import DenseOptions, Phase, SparsityStrategy
from esacl.streams.base import Examples, Task
from esacl.training.events import EpochDone, StepDone, TaskDone
from esacl.types import Context, Params
from tests.builders import finish, same, stream, trainer, weights
from tests.reference.er_loop import train


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
    training = finish(trainer("er", {"objective": {"replay_batch": 4}}))
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
        train=TrainConfig(epochs=4, batch_size=8),
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


@pytest.mark.parametrize("lr", [1e6, 9e5])
def test_divergence_is_an_error_that_names_the_learning_rate_and_the_place(lr: float) -> None:
    training = trainer("finetune", {"update": {"lr": lr}})
    with pytest.raises(RunError, match=r"training diverged: the loss of task 1, epoch \d is (nan|inf)") as error:
        finish(training)
    assert f"Use a smaller --lr than {lr:g}." in str(error.value)


def poison(number: int) -> tuple[Tensor, Any, Any]:
    torch.manual_seed(number)
    np.random.seed(number)  # noqa: NPY002
    random.seed(number)
    return torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002


@pytest.mark.parametrize("method", METHODS)
def test_training_neither_reads_nor_moves_the_global_generators(method: str) -> None:
    of = stream(augment=True)
    of = of.joint() if method == "mtl" else of
    results = []
    for number in (1, 2):
        before = poison(number)
        results.append(finish(trainer(method, of=of, net=NetConfig("cnn", 4))))
        assert torch.equal(torch.get_rng_state(), before[0])
        state = np.random.get_state()  # noqa: NPY002
        assert (state[1] == before[1][1]).all()
        assert state[2:] == before[1][2:]
        assert random.getstate() == before[2]
    one, other = results
    assert same(weights(one.net), weights(other.net))
    assert one.rows == other.rows


def test_another_seed_gives_another_result() -> None:
    assert not same(weights(finish(trainer(seed=0)).net), weights(finish(trainer(seed=1)).net))


@pytest.mark.parametrize(("backbone", "width"), [("mlp", 16), ("cnn", 4)])
def test_the_engine_ends_with_the_same_bits_as_a_hand_written_er_loop(backbone: str, width: int) -> None:
    of = stream(augment=True)
    options = {"objective": {"buffer": 20}, "update": {"lr": 0.05}}
    training = finish(trainer("er", options, of, net=NetConfig(backbone, width), seed=3))
    start = build_model(backbone, width, of.shape, 6, seed=3)
    before = deepcopy(start.state_dict())
    model = train(start, of, epochs=2, batch_size=8, seed=3, lr=0.05, buffer=20)
    assert same(dict(model.state_dict()), weights(training.net))
    assert not torch.equal(model.state_dict()["head.weight"], before["head.weight"])


def test_mtl_learns_all_tasks_in_one_stage() -> None:
    training = finish(trainer("mtl", of=stream().joint(), train=TrainConfig(epochs=3, batch_size=8)))
    assert len(training.rows) == 1
    assert training.samples == 3 * 72
    assert min(training.rows[0].task_il) > 0.85
    assert training.rows[0].class_il is not None


def test_the_split_that_is_evaluated_is_the_one_asked_for() -> None:
    train = TrainConfig(epochs=1, batch_size=8, split="validation")
    training = finish(trainer("finetune", train=train))
    assert training.net.meter.executed_macs["evaluate"] == 4 * 3 * 10 * training.net.meter.dense


def test_class_il_is_left_out_where_only_task_il_is_asked_for() -> None:
    train = TrainConfig(epochs=1, batch_size=8, scenario="task-il")
    training = finish(trainer("finetune", train=train))
    assert [row.class_il for row in training.rows] == [None, None, None]
    assert finish(trainer("finetune", train=TrainConfig(epochs=1, batch_size=8))).rows[0].class_il is not None


def test_a_view_is_attached_only_where_weights_are_viewed() -> None:
    class Viewing(SparsityStrategy):
        views_weights = True

    assert trainer().net.view is None
    viewing = trainer(replacing={"sparsity": lambda known: Viewing(NoOptions(), known)})
    assert viewing.net.view == viewing.parts.sparsity.view


def test_the_state_at_the_end_of_an_epoch_continues_with_the_same_bits() -> None:
    whole = finish(trainer("der++", of=stream(augment=True)))
    stopped = trainer("der++", of=stream(augment=True))
    for event in stopped.run():
        if isinstance(event, EpochDone) and (event.task, event.epoch) == (1, 0):
            break
    state = deepcopy(stopped.state_dict())
    resumed = trainer("der++", of=stream(augment=True))
    resumed.load_state_dict(state)
    finish(resumed)
    assert same(weights(resumed.net), weights(whole.net))
    assert resumed.rows == whole.rows
    assert resumed.untrained == whole.untrained
    assert resumed.samples == whole.samples
    assert resumed.paper_macs == whole.paper_macs
    assert resumed.net.meter.state_dict() == whole.net.meter.state_dict()


def test_extra_parameters_of_the_parts_are_trained() -> None:
    class Biased(Objective):
        def __init__(self, options: Any, known: Context) -> None:
            super().__init__(options, known)
            self.bias = torch.zeros(6, requires_grad=True)

        def extra_parameters(self) -> Params:
            return {"bias": self.bias}

        def example_loss(self, outputs: Any, batch: Any) -> Tensor:
            return super().example_loss(replace_logits(outputs, self.bias), batch)

    def replace_logits(outputs: Any, bias: Tensor) -> Any:
        return outputs._replace(logits=outputs.logits + bias)

    training = finish(trainer("finetune", replacing={"objective": lambda known: Biased(NoOptions(), known)}))
    assert training.net.extra["objective.bias"].count_nonzero() > 0


def test_every_epoch_trains_in_training_mode_whatever_mode_a_part_left_behind() -> None:
    modes: list[bool] = []

    class Careless(Objective):
        def begin_task(self, net: Network, task: Task) -> None:
            super().begin_task(net, task)
            net.model.eval()

        def after_step(self, net: Network, trace: Any) -> None:
            modes.append(net.model.training)

    finish(trainer("finetune", replacing={"objective": lambda known: Careless(NoOptions(), known)}))
    assert modes == [True] * 18


def test_seconds_are_counted_apart() -> None:
    training = finish(trainer("finetune"))
    assert set(training.seconds) == {"train", "evaluate", "data"}
    assert all(value > 0 for value in training.seconds.values())


def test_one_task_is_a_stream_too() -> None:
    training = finish(trainer("er", of=replace(stream(tasks=1))))
    assert len(training.rows) == 1
