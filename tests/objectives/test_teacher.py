from copy import deepcopy

import torch

from esacl.config import TrainConfig
from esacl.nets import Network
from esacl.objectives.teacher import Teacher
from esacl.training.events import TaskDone
from tests.builders import batch, network, same, trainer


def disturb(net: Network) -> None:
    with torch.no_grad():
        for value in net.stored.values():
            value.mul_(1.1)


def test_there_is_none_before_it_takes_the_network() -> None:
    teacher = Teacher(network())
    assert not teacher
    teacher.take()
    assert teacher


def test_it_answers_as_the_network_did_in_evaluation_mode_whatever_becomes_of_the_network() -> None:
    net, x = network("cnn", 4), batch().x
    net.model.train()
    net(x)  # so that the running statistics are not the initial ones
    with net.inference():
        before = net(x)
    teacher = Teacher(net)
    teacher.take()
    disturb(net)
    net.model.train()
    for _ in range(2):
        answer = teacher(x)
        assert torch.equal(answer.logits, before.logits)
        assert torch.equal(answer.features, before.features)
    assert not answer.logits.requires_grad
    assert not answer.features.requires_grad


def test_its_calls_are_charged_to_the_network_as_passes_without_gradients() -> None:
    net = network()
    teacher = Teacher(net)
    teacher.take()
    teacher(batch(5).x)
    assert net.meter.executed_macs == {"train": 5 * net.meter.dense}
    net.backward(net(batch(3).x).logits.sum())
    assert net.meter.largest_step == 3, "a teacher holds nothing for a backward pass"


def test_it_sees_the_weights_as_the_view_does() -> None:
    net, x = network(), batch().x
    net.view = lambda stored, task: {**stored, "head.bias": stored["head.bias"] + 7}
    with net.inference():
        viewed = net(x).logits
    teacher = Teacher(net)
    teacher.take()
    net.view = None
    assert torch.equal(teacher(x).logits, viewed)


def test_its_state_goes_round_also_that_of_none_at_all() -> None:
    net, other, x = network(), network(seed=1), batch().x
    teacher, resumed = Teacher(net), Teacher(other)
    empty = teacher.state_dict()
    teacher.take()
    resumed.load_state_dict(deepcopy(teacher.state_dict()))
    assert torch.equal(resumed(x).logits, teacher(x).logits)
    assert not torch.equal(other(x).logits, resumed(x).logits), "its network is another"
    resumed.load_state_dict(empty)
    assert not resumed


def test_after_a_task_it_is_the_pruned_network() -> None:
    options = {"objective": {"buffer": 20}, "sparsity": {"level": 0.7}}
    training = trainer("esacl-co2l", options, train=TrainConfig(epochs=1, batch_size=8))
    ends = 0
    for event in training.run():
        if not isinstance(event, TaskDone):
            continue
        ends += 1
        net, taught = training.net, training.parts.objective.teacher.state_dict()
        body = {name for name in taught if name not in net.partition.head}  # the head is fitted after it
        stored = net.effective_state()
        assert same({name: taught[name] for name in body}, {name: stored[name] for name in body})
        zeros = sum(int((taught[name] == 0).sum()) for name in net.partition.prunable)
        assert zeros > 0.65 * sum(taught[name].numel() for name in net.partition.prunable)
    assert ends == 3
