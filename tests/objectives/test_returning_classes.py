"""A class may come back in a later task: it is learnt from its labels, and remembered from both times."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from esacl.config import TrainConfig
from esacl.errors import ConfigError
from esacl.objectives.co2l import Co2l
from esacl.objectives.exemplars import ExemplarObjective
from esacl.objectives.icarl import Icarl
from esacl.objectives.lwf import Lwf, LwfOptions
from esacl.streams.base import Examples, Task
from tests.builders import context, finish, network, stream, trainer

STREAM = stream()
KINDS = pytest.mark.parametrize("kind", [Icarl, Co2l])


def task(index: int, *columns: int) -> Task:
    """A task of these columns, with twelve examples of each that tell task, class and place."""
    rows = torch.tensor([[index, column, place] for column in columns for place in range(12)], dtype=torch.uint8)
    x = torch.zeros(len(rows), 64, dtype=torch.uint8)
    x[:, :3] = rows
    examples = Examples(x.view(-1, 1, 8, 8), rows[:, 1].long())
    return Task(index, columns, examples, examples, examples)


def after(kind: type[ExemplarObjective], *tasks: Task) -> ExemplarObjective:
    """An objective that has learnt these tasks."""
    part, net = kind(kind.Options(24), context(STREAM)), network()
    part.attach(net)
    for each in tasks:
        part.begin_task(net, each)
        part.end_task(net, each)
    return part


def held(part: ExemplarObjective, column: int) -> Tensor:
    """The tasks from which the exemplars of a class are."""
    own = part.memory.of(column)
    assert own is not None
    return own.flatten(1)[:, 0]


@KINDS
def test_the_memory_stays_full_and_fair_when_classes_come_back(kind: type[ExemplarObjective]) -> None:
    part = after(kind, task(0, 0, 1), task(1, 1, 2), task(2, 0, 1, 2))
    assert [len(held(part, column)) for column in range(3)] == [8, 8, 8]


def test_exemplars_of_a_class_that_came_back_are_chosen_among_old_and_new() -> None:
    part = after(Co2l, task(0, 0, 1), task(1, 0, 2), task(2, 0, 3))
    assert len(held(part, 0).unique()) > 1
    assert set(held(part, 1).tolist()) == {0}


@KINDS
def test_the_teacher_is_asked_only_about_classes_that_did_not_come_back_and_about_each_once(
    kind: type[ExemplarObjective],
) -> None:
    part = after(kind, task(0, 0, 1), task(1, 1, 2), task(2, 2, 3))
    part.begin_task(network(), task(3, 3, 1))
    assert part.columns == [3, 1]
    assert part.old == [0, 2]


def test_lwf_asks_about_a_task_that_comes_back_once() -> None:
    part, net = Lwf(LwfOptions(), context(STREAM)), network()
    part.attach(net)
    for each in (task(0, 0, 1), task(1, 0, 1), task(2, 1, 2)):
        part.begin_task(net, each)
        part.end_task(net, each)
    assert part.old == [[0, 1], [1, 2]]


def test_a_memory_must_have_room_for_the_classes_of_the_tasks_and_not_for_columns_without_any() -> None:
    roomy = context(STREAM, classes=100, task_classes=((0, 1), (1, 2)))
    assert Icarl(Icarl.Options(3), roomy).memory.capacity == 3
    with pytest.raises(ConfigError, match="there are 3 classes"):
        Icarl(Icarl.Options(2), roomy)


def test_without_tasks_to_evaluate_stages_are_trained_to_the_same_bits_and_nothing_is_evaluated() -> None:
    asking = TrainConfig(epochs=2, batch_size=8, unpruned=True)
    whole, unseen = trainer("esacl-er", train=asking), trainer("esacl-er", train=asking)
    unseen.stream = replace(unseen.stream, tasks=())
    assert torch.equal(unseen.stream.task_of, whole.stream.task_of)
    finish(whole)
    finish(unseen)
    for name, value in whole.net.stored.items():
        assert torch.equal(value, unseen.net.stored[name])
    assert len(whole.unpruned) == 3
    assert unseen.unpruned == []
    assert [row.task_il for row in unseen.rows] == [(), (), ()]
    assert set(unseen.net.meter.executed_macs) == {"train"}
