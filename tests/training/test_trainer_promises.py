from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.config import NetConfig, TrainConfig
from esacl.errors import RunError
from esacl.nets import Network, build_model
from esacl.objectives.base import Objective
from esacl.options import NoOptions
from esacl.sparsity.base import SparsityStrategy
from esacl.streams.base import Task
from esacl.training.events import EpochDone
from esacl.types import Context, Params
from tests.builders import finish, same, stream, trainer, weights
from tests.reference.er_loop import train


@pytest.mark.parametrize("lr", [1e6, 9e5])
def test_divergence_is_an_error_that_names_the_learning_rate_and_the_place(lr: float) -> None:
    training = trainer("finetune", {"update": {"lr": lr}})
    with pytest.raises(RunError, match=r"training diverged: the loss of task 1, epoch \d is (nan|inf)") as error:
        finish(training)
    assert f"Use a smaller update.lr than {lr:g}." in str(error.value)


def test_another_seed_gives_another_result() -> None:
    assert not same(weights(finish(trainer(seed=0)).net), weights(finish(trainer(seed=1)).net))


@pytest.mark.parametrize(("backbone", "width"), [("mlp", 16), ("cnn", 4)])
def test_the_engine_ends_with_the_same_bits_as_a_hand_written_er_loop(backbone: str, width: int) -> None:
    of = stream(augment=True)
    options = {"objective": {"buffer": 20}, "update": {"lr": 0.05, "momentum": 0.9}}
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
    assert set(training.seconds) == {"train", "evaluate", "data", "cpu"}
    assert all(value > 0 for value in training.seconds.values())


def test_one_task_is_a_stream_too() -> None:
    training = finish(trainer("er", of=replace(stream(tasks=1))))
    assert len(training.rows) == 1
