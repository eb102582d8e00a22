from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from esacl.errors import ConfigError
from esacl.nets.features import features_of
from esacl.objectives.co2l import Co2l
from esacl.objectives.exemplars import ExemplarObjective, Exemplars
from esacl.objectives.icarl import Icarl
from esacl.training.events import TaskDone
from tests.builders import context, finish, network, parts, stream, trainer

STREAM = stream(augment=True)
KINDS = pytest.mark.parametrize("kind", [Icarl, Co2l])
METHODS = pytest.mark.parametrize("method", ["icarl", "co2l"])


def numbered(column: int, count: int = 40) -> Tensor:
    """Images that tell their class and their place in it."""
    return torch.tensor([[column, place] for place in range(count)], dtype=torch.uint8).view(-1, 1, 1, 2)


def taught(kind: type[ExemplarObjective], tasks: int = 1, buffer: int = 20, seed: int = 0) -> ExemplarObjective:
    """An objective that has learnt some tasks and begun the next."""
    part, net = kind(kind.Options(buffer), context(STREAM, seed=seed)), network(seed=seed)
    part.attach(net)
    for task in STREAM.tasks[:tasks]:
        part.begin_task(net, task)
        part.end_task(net, task)
    part.begin_task(net, STREAM.tasks[tasks])
    return part


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 30))
def test_every_class_has_the_same_number_and_all_together_never_exceed_the_budget(tasks: list[int], room: int) -> None:
    memory = Exemplars(sum(tasks) + room)
    assert memory.examples() is None
    column = 0
    for classes in tasks:
        memory.add({new: numbered(new) for new in range(column, column + classes)})
        column += classes
        held = memory.examples()
        assert held is not None
        assert len(held) == len(memory) <= memory.capacity
        counts = held.y.bincount(minlength=column)
        assert counts.min() == counts.max() == min(40, memory.capacity // column)
        for row, label in zip(held.x.flatten(1).tolist(), held.y.tolist()):
            assert row[0] == label
        for old in range(column):
            places = held.x[held.y == old].flatten(1)[:, 1].tolist()
            assert places == list(range(len(places))), "what goes is the end of each class"


def test_a_class_with_few_examples_keeps_them_all() -> None:
    memory = Exemplars(20)
    memory.add({0: numbered(0, 3), 1: numbered(1, 40)})
    held = memory.examples()
    assert held is not None
    assert held.y.bincount().tolist() == [3, 10]


@METHODS
def test_exemplars_of_an_old_class_are_the_first_of_those_it_had_before(method: str) -> None:
    training = trainer(method, {"objective": {"buffer": 20}}, STREAM)
    before: dict[int, Tensor] = {}
    shares = []
    for event in training.run():
        if isinstance(event, TaskDone):
            held = training.parts.objective.buffer_examples()
            assert held is not None
            now = {column: held.x[held.y == column] for column in held.y.unique().tolist()}
            for column, images in before.items():
                assert torch.equal(now[column], images[: len(now[column])])
            for column, images in now.items():
                train = training.stream.tasks[column // 2].train
                own = train.x[train.y == column]
                assert all((own == image).flatten(1).all(1).any() for image in images)
                assert len(images.flatten(1).unique(dim=0)) == len(images), "none is taken twice"
            shares.append([len(images) for images in now.values()])
            before = now
    assert shares == [[10, 10], [5, 5, 5, 5], [3, 3, 3, 3, 3, 3]]


@METHODS
def test_a_memory_without_room_for_every_class_is_refused_with_the_remedy(method: str) -> None:
    with pytest.raises(
        ConfigError, match=r"objective\.buffer = 5 is too small: there are 6.*Use objective\.buffer = 6"
    ):
        parts(method, {"objective": {"buffer": 5}})
    assert parts(method, {"objective": {"buffer": 6}}).objective.memory.capacity == 6


@KINDS
def test_a_task_is_learnt_together_with_the_exemplars_of_earlier_ones(kind: type[ExemplarObjective]) -> None:
    first = kind(kind.Options(20), context(STREAM)).training_set(STREAM.tasks[0])
    assert torch.equal(first.x, STREAM.tasks[0].train.x)
    part, task = taught(kind), STREAM.tasks[1]
    both, stored = part.training_set(task), part.buffer_examples()
    assert stored is not None
    assert torch.equal(both.x, torch.cat([task.train.x, stored.x]))
    assert torch.equal(both.y, torch.cat([task.train.y, stored.y]))
    assert set(stored.y.tolist()) == {0, 1}, "those of the present task come when it has ended"


@METHODS
def test_the_length_of_a_run_is_known_beforehand(method: str) -> None:
    training = trainer(method, {"objective": {"buffer": 20}}, STREAM)
    assert training.planned_samples() == 2 * (24 + (24 + 20) + (24 + 20))
    assert finish(training).samples == training.planned_samples()
    roomy = trainer(method, {"objective": {"buffer": 1000}}, STREAM)
    assert roomy.planned_samples() == 2 * (24 + (24 + 24) + (24 + 48)), "there are no more than twelve of a class"
    assert finish(roomy).samples == roomy.planned_samples()


@KINDS
def test_watching_the_memory_sees_other_examples_each_time_and_only_those_of_earlier_tasks(
    kind: type[ExemplarObjective],
) -> None:
    assert kind(kind.Options(20), context(STREAM)).memory_batch(4) is None
    part = taught(kind, tasks=2)
    stored = part.buffer_examples()
    assert stored is not None
    looks = [part.memory_batch(6) for _ in range(3)]
    drawn = []
    for look in looks:
        assert look is not None
        x, y = look
        assert x.shape == (6, 1, 8, 8)
        assert set(y.tolist()) <= {0, 1, 2, 3}
        drawn.append((x, y))
    assert not torch.equal(drawn[0][0], drawn[1][0])
    everything = part.memory_batch(1000)
    assert everything is not None
    assert everything[1].sort().values.tolist() == stored.y.sort().values.tolist()
    again = taught(kind, tasks=2).memory_batch(6)
    assert again is not None
    assert torch.equal(again[0], drawn[0][0])


@KINDS
def test_it_continues_from_a_saved_state_in_an_objective_that_was_used_for_something_else(
    kind: type[ExemplarObjective],
) -> None:
    part, other = taught(kind, tasks=2), taught(kind, tasks=1, buffer=30)
    part.memory_batch(3)
    other.load_state_dict(deepcopy(part.state_dict()))
    assert (other.task, other.columns, other.old) == (2, [4, 5], [0, 1, 2, 3])
    mine, theirs = part.training_set(STREAM.tasks[2]), other.training_set(STREAM.tasks[2])
    assert torch.equal(mine.x, theirs.x)
    assert torch.equal(mine.y, theirs.y)
    looks = [own.memory_batch(5) for own in (part, other)]
    assert looks[0] is not None
    assert looks[1] is not None
    assert torch.equal(looks[0][0], looks[1][0])
    x = STREAM.inputs.plain(STREAM.tasks[0].test.x)
    assert torch.equal(part.teacher(x).features, other.teacher(x).features)
    fresh = kind(kind.Options(20), context(STREAM))
    fresh.attach(network())
    empty = deepcopy(fresh.state_dict())
    other.load_state_dict(empty)
    assert other.buffer_examples() is None
    assert not other.teacher


def test_features_are_those_of_images_as_they_are_in_evaluation_mode_whatever_their_number() -> None:
    net, known = network("cnn", 4), context(STREAM)
    net.model.train()
    images = torch.cat([task.train.x for task in STREAM.tasks] * 4)
    assert len(images) == 288, "more than are taken at once"
    found = features_of(net, known, images)
    assert net.model.training
    assert net.meter.executed_macs == {"train": 288 * net.meter.dense}
    with net.inference():
        torch.testing.assert_close(found, net(STREAM.inputs.plain(images)).features)
    assert not found.requires_grad
