import random
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import Tensor

from esacl.config import PartsConfig
from esacl.nets import Network
from esacl.options import NoOptions
from esacl.readouts.base import Readout
from esacl.training.evaluate import answered, evaluate
from tests.builders import context, finish, network, same, stream, trainer, weights
from tests.reference.evaluate import accuracies

STREAM = stream()


class Telling(Readout):
    """Answers from a table, and notes which task it was told."""

    def __init__(self, answers: Tensor) -> None:
        super().__init__(NoOptions(), context())
        self.answers = answers
        self.told: list[int | None] = []

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        self.told.append(task)
        return self.answers.expand(len(x), -1)


def head() -> Readout:
    return Readout(NoOptions(), context())


@pytest.mark.parametrize("split", ["test", "validation", "train"])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_accuracy_is_that_of_a_naive_count(backbone: str, split: str) -> None:
    net = network(backbone)
    for _ in range(2):
        net(STREAM.inputs.plain(STREAM.tasks[0].train.x))  # moves the BatchNorm statistics
    found = evaluate(net, head(), STREAM, split)
    task_il, class_il = accuracies(deepcopy(net.model), STREAM, split)
    assert list(found.task_il) == task_il
    assert found.class_il is not None
    assert list(found.class_il) == class_il
    assert 0 < sum(task_il) < 3


def test_accuracy_after_training_is_that_of_a_naive_count() -> None:
    trained = finish(trainer("er", parts=PartsConfig(readout="own")))
    found = evaluate(trained.net, head(), STREAM, "test")
    assert (list(found.task_il), list(found.class_il or ())) == accuracies(deepcopy(trained.net.model), STREAM, "test")
    assert found == trained.rows[-1]
    assert sum(found.task_il) / 3 > 0.8


@pytest.mark.parametrize("batch_size", [1, 3, 14, 1000])
def test_the_batch_size_makes_no_difference(batch_size: int) -> None:
    net = network("cnn")
    assert evaluate(net, head(), STREAM, "test", batch_size=batch_size) == evaluate(net, head(), STREAM, "test")


def test_task_il_masks_the_columns_of_other_tasks_and_class_il_does_not() -> None:
    readout = Telling(torch.tensor([1.0, 2.0, 9.0, 3.0, 5.0, 4.0]))  # always says 2
    found = evaluate(network(), readout, STREAM, "test")
    assert found.task_il == (0.5, 0.5, 0.5)  # the better column of each task: 1, 2, 4
    assert found.class_il == (0.0, 0.5, 0.0)


def test_a_method_that_must_be_told_the_task_is_told_it_and_has_no_class_il() -> None:
    readout = Telling(torch.zeros(6))
    assert evaluate(network(), readout, STREAM, "test", needs_task_id=True).class_il is None
    assert readout.told == [0, 1, 2]


def test_other_methods_are_never_told_the_task() -> None:
    readout = Telling(torch.zeros(6))
    assert evaluate(network(), readout, STREAM, "test").class_il is not None
    assert readout.told == [None, None, None]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_evaluation_has_no_side_effects(backbone: str, training: bool) -> None:
    net = network(backbone)
    net.backward(net(STREAM.inputs.plain(STREAM.tasks[0].train.x)).logits.sum())
    net.model.train(training)
    before = weights(net)
    gradients = {name: (id(p.grad), p.grad.clone()) for name, p in net.stored.items() if p.grad is not None}
    charged = net.meter.executed_macs["train"], net.meter.largest_step
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    evaluate(net, head(), STREAM, "test")
    assert same(weights(net), before)
    assert all(module.training is training for module in net.model.modules())
    assert {name: id(p.grad) for name, p in net.stored.items()} == {name: i for name, (i, _) in gradients.items()}
    assert same(net.gradients(), {name: value for name, (_, value) in gradients.items()})
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert random.getstate() == states[2]
    assert (net.meter.executed_macs["train"], net.meter.largest_step) == charged
    assert net.meter.executed_macs["evaluate"] == 3 * 14 * net.meter.dense


@pytest.mark.parametrize("within", [False, True])
def test_answers_are_those_that_accuracy_counts(within: bool) -> None:
    net = network()
    found = evaluate(net, head(), STREAM, "test")
    truth, answers = answered(net, head(), STREAM, "test", needs_task_id=False, within=within, batch_size=7)
    sizes = [len(task.test) for task in STREAM.tasks]
    right = [float(part.double().mean()) for part in torch.split(truth == answers, sizes)]
    assert right == pytest.approx(list(found.task_il if within else found.class_il or ()))
