from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.config import NetConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.nets import Network
from esacl.objectives.lwf import Lwf, LwfOptions
from esacl.training.checkpoint import Checkpoints
from esacl.training.events import EpochDone, TaskDone
from esacl.types import Outputs, State, Trace
from tests.builders import batch, context, network, outputs_of, same, stream, trainer, weights
from tests.reference.lwf import distillation

STREAM = stream()


def part(net: Network, mask: str = "ce", **options: Any) -> Lwf:
    made = Lwf(LwfOptions(**options), context(STREAM, fit_loss=mask, epochs=3, columns="task"))
    made.attach(net)
    return made


def reach(made: Lwf, net: Network, task: int) -> Network:
    """Begin a task after those before it; the network as it was when the last of them ended."""
    for earlier in STREAM.tasks[:task]:
        made.begin_task(net, earlier)
        disturb(net, earlier.index)
        made.end_task(net, earlier)
    before = net.teacher()
    made.begin_task(net, STREAM.tasks[task])
    return before


def disturb(net: Network, number: int) -> None:
    draw = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for value in net.stored.values():
            value.add_(0.2 * torch.randn(value.shape, generator=draw))


def retained(made: Lwf, net: Network, outputs: Outputs, **changes: Any) -> Tensor:
    loss = made.retain_loss(net, outputs, replace(batch(8, STREAM, task=2), **changes))
    assert loss is not None
    return loss


def rows_moved(before: State, after: State, name: str) -> list[int]:
    return (before[name] != after[name]).reshape(len(after[name]), -1).any(1).nonzero().squeeze(1).tolist()


@pytest.mark.parametrize(("softmax", "groups"), [("task", [[0, 1], [2, 3]]), ("joint", [[0, 1, 2, 3]])])
@pytest.mark.parametrize(("alpha", "temperature"), [(1.0, 2.0), (0.3, 1.0), (2.0, 5.0)])
def test_it_retains_the_softened_answers_of_the_teacher_on_old_columns(
    alpha: float, temperature: float, softmax: str, groups: list[list[int]]
) -> None:
    net = network()
    made = part(net, alpha=alpha, temperature=temperature, softmax=softmax)
    teacher = reach(made, net, 2)
    disturb(net, 9)
    x = batch(8, STREAM, task=2).x
    outputs = net(x)
    told, said = teacher(x).logits, outputs.logits
    expected = distillation(alpha, temperature, told, said, groups)
    assert expected > 0.01
    assert retained(made, net, outputs).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("softmax", ["task", "joint"])
def test_what_answers_as_the_teacher_has_nothing_to_make_good(softmax: str) -> None:
    net = network()
    made = part(net, softmax=softmax)
    reach(made, net, 2)
    assert retained(made, net, net(batch(8, STREAM, task=2).x)).item() == pytest.approx(0, abs=1e-6)


def test_distillation_moves_old_columns_only_and_the_fit_loss_new_ones_only() -> None:
    net = network()
    made = part(net)
    reach(made, net, 1)
    disturb(net, 9)
    examples = batch(8, STREAM, task=1)
    outputs = net(examples.x)
    kept = torch.autograd.grad(retained(made, net, outputs, views=examples.views), outputs.logits, retain_graph=True)[0]
    fitted = torch.autograd.grad(made.fit_loss(outputs, examples).sum(), outputs.logits)[0]
    assert [column for column in range(6) if kept[:, column].any()] == [0, 1]
    assert [column for column in range(6) if fitted[:, column].any()] == [2, 3]


@pytest.mark.parametrize("task", [0, 1])
def test_the_fit_loss_is_the_cross_entropy_over_the_columns_of_the_task(task: int) -> None:
    net = network()
    made = part(net)
    reach(made, net, task)
    examples = batch(8, STREAM, task=task)
    logits = net(examples.x).logits.detach()
    own = list(STREAM.tasks[task].classes)
    expected = cross_entropy(logits[:, own], examples.y - own[0], reduction="none")
    torch.testing.assert_close(made.fit_loss(outputs_of(logits), examples), expected)


def test_the_teacher_sees_every_view_and_is_charged_one_forward_pass_for_each() -> None:
    net = network()
    made = part(net)
    teacher = reach(made, net, 2)
    disturb(net, 9)
    views = batch(8, STREAM, task=2).x, batch(8, STREAM, task=2, start=1).x
    outputs = net(torch.cat(views))
    before = net.meter.executed_macs["train"]
    loss = retained(made, net, outputs, views=views)
    assert net.meter.executed_macs["train"] - before == 16 * net.meter.dense
    expected = distillation(1.0, 2.0, teacher(torch.cat(views)).logits, outputs.logits, [[0, 1], [2, 3]])
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_the_teacher_is_the_pruned_network_of_the_end_of_the_task() -> None:
    small = {"sparsity": {"level": 0.5}}
    training = trainer("esacl", small, replacing={"objective": lambda known: Lwf(LwfOptions(), known)})
    made, events = training.parts.objective, training.run()
    assert isinstance(made, Lwf)
    assert next(event for event in events if isinstance(event, TaskDone))
    pruned = weights(training.net)
    for name in training.net.partition.prunable:
        assert (pruned[name] == 0).float().mean() > 0.5
    assert same(made.teacher.state_dict(), pruned)
    assert isinstance(next(event for event in events if isinstance(event, EpochDone)), EpochDone)
    assert not same(weights(training.net), pruned), "the next task expands and learns"
    assert same(made.teacher.state_dict(), pruned)


def warm(backbone: str, mask: str = "ce") -> Any:
    """A run on two tasks whose second starts with an epoch of warm-up, with everything that moves idle weights."""
    options = {"objective": {"warmup": 1}, "update": {"weight_decay": 0.1, "momentum": 0.9}}
    settings = TrainConfig(epochs=2, batch_size=8, fit_loss=mask)
    return trainer("lwf", options, of=stream(tasks=2), train=settings, net=NetConfig(backbone, 4))


@pytest.mark.parametrize("mask", ["ce", "ace"])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_during_the_warm_up_only_the_rows_of_new_columns_move(backbone: str, mask: str) -> None:
    training = warm(backbone, mask)
    net, made = training.net, training.parts.objective
    states, left = [weights(net)], []
    for event in training.run():
        if isinstance(event, EpochDone | TaskDone):
            states.append(weights(net))
            left.append(made.left)
    start, first, _, ended, warmed, done, _ = states
    assert left[3:5] == [0, 0]
    assert all(rows_moved(start, first, name) for name in net.stored), "the first task has none"
    for name in net.stored:
        moved = rows_moved(ended, warmed, name)
        assert moved == ([2, 3] if name in net.partition.head else []), name
        assert rows_moved(warmed, done, name), name
    if backbone == "cnn":
        statistics = [name for name in start if name.endswith("running_mean")]
        assert statistics
        assert all(rows_moved(ended, warmed, name) for name in statistics), "the network is called as in training"


def test_the_warm_up_lasts_as_many_examples_as_its_epochs_have_and_distils_nothing() -> None:
    net = network()
    made = part(net, warmup=2)
    made.begin_task(net, STREAM.tasks[0])
    assert made.left == 0
    made.end_task(net, STREAM.tasks[0])
    made.begin_task(net, STREAM.tasks[1])
    examples = batch(10, STREAM, task=1)
    outputs = net(examples.x)
    for left in (48, 38, 28, 18, 8):
        assert made.left == left
        assert made.retain_loss(net, outputs, examples) is None
        made.after_step(net, Trace(examples, outputs, torch.zeros(10), torch.zeros(()), 10))
    assert made.left == 0
    assert made.retain_loss(net, outputs, examples) is not None


@pytest.mark.parametrize("mask", ["ce", "ace"])
def test_the_warm_up_has_the_loss_that_it_would_have_without_and_a_gradient_for_the_head_alone(mask: str) -> None:
    net = network()
    cold, made = part(net, mask), part(net, mask, warmup=1)
    for each in (cold, made):
        each.end_task(net, STREAM.tasks[0])
        each.begin_task(net, STREAM.tasks[1])
    examples = batch(8, STREAM, task=1)
    examples = examples.take((examples.y == 2).nonzero().squeeze(1))
    alone = replace(examples, drawn=torch.tensor([2, 3]))
    fits = [each.fit_loss(net(alone.x), alone) for each in (cold, made)]
    torch.testing.assert_close(*fits)
    net.backward(fits[1].sum())
    assert set(net.gradients()) == set(net.partition.head)
    if mask == "ace":
        assert (made.fit_loss(net(examples.x), replace(examples, drawn=None)) < 1e-3).all(), "only one class is left"


def test_it_continues_from_a_saved_state_with_the_same_teacher_and_the_rest_of_the_warm_up(tmp_path: Any) -> None:
    net, other = network("cnn", 8), network("cnn", 8, seed=3)
    made, resumed = part(net, warmup=1), part(other, warmup=1)
    reach(made, net, 2)
    reach(resumed, other, 1)
    examples = batch(8, STREAM, task=2)
    step = Trace(examples, net(examples.x), torch.zeros(8), torch.zeros(()), 8)
    made.after_step(net, step)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, made.state_dict())
    state, _ = checkpoints.newest()
    assert state is not None
    resumed.load_state_dict(state)
    disturb(net, 9)
    outputs = net(examples.x)
    for left in (16, 8):
        for each in (made, resumed):
            assert each.left == left
            assert each.retain_loss(net, outputs, examples) is None
            each.after_step(net, step)
    assert torch.equal(retained(made, net, outputs), retained(resumed, other, outputs))
    assert torch.equal(made.fit_loss(outputs, examples), resumed.fit_loss(outputs, examples))
    fresh = part(network("cnn", 8))
    resumed.load_state_dict(fresh.state_dict())
    assert not resumed.teacher
    assert resumed.retain_loss(net, outputs, examples) is None


def test_a_stream_with_tasks_of_one_class_and_a_warm_up_as_long_as_the_task_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"stream\.classes_per_task = 2"):
        Lwf(LwfOptions(), context(stream(classes_per_task=1)))
    with pytest.raises(ConfigError, match="leaves nothing of the 2 epochs"):
        Lwf(LwfOptions(warmup=2), context(STREAM))
