from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.nn.functional import one_hot

from esacl.nets import Network
from esacl.objectives import ewc as module
from esacl.objectives.ewc import Ewc, EwcOptions
from esacl.training.checkpoint import Checkpoints
from esacl.training.events import TaskDone
from esacl.types import Params
from tests.builders import batch, context, finish, network, same, stream, trainer, weights
from tests.reference.ewc import fisher, normalised, penalty

STREAM = stream()
EVERY = list(range(6))


def part(net: Network, lam: float = 10.0, mask: str = "ce", normalise: bool = False, **options: Any) -> Ewc:
    made = Ewc(EwcOptions(lam, normalise=normalise, **options), context(STREAM, fit_loss=mask))
    made.attach(net)
    return made


def learn(made: Ewc, net: Network, task: int) -> Params:
    """Move the weights somewhere else and end a task there."""
    made.begin_task(net, STREAM.tasks[task])
    disturb(net, task)
    made.end_task(net, STREAM.tasks[task])
    return {name: value.detach().clone() for name, value in net.stored.items()}


def disturb(net: Network, number: int) -> None:
    draw = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for value in net.stored.values():
            value.add_(0.1 * torch.randn(value.shape, generator=draw))


def true_fisher(net: Network, task: int, columns: list[int]) -> Params:
    train = STREAM.tasks[task].train
    return fisher(net, STREAM.inputs.plain(train.x), train.y, columns)


def gradient(made: Ewc, net: Network) -> Params:
    examples = batch()
    loss = made.retain_loss(net, net(examples.x), examples)
    assert loss is not None
    return dict(zip(net.stored, torch.autograd.grad(loss, list(net.stored.values()))))


@pytest.mark.parametrize(("mask", "columns"), [("ce", EVERY), ("ace", [2, 3])])
def test_the_fisher_of_the_head_is_its_closed_form(mask: str, columns: list[int]) -> None:
    """∂ log p(y) / ∂W = (onehot(y) − p) hᵀ: a linear softmax on the features h."""
    net = network()
    made = part(net, mask=mask)
    learn(made, net, 1)
    train = STREAM.tasks[1].train
    outputs = net(STREAM.inputs.plain(train.x))
    hidden = torch.full((6,), -torch.inf)
    hidden[columns] = 0
    errors = (one_hot(train.y, 6) - (outputs.logits + hidden).softmax(1)).square()
    expected = (errors.unsqueeze(2) * outputs.features.square().unsqueeze(1)).mean(0)
    torch.testing.assert_close(made.fisher["head.weight"], expected.detach(), rtol=1e-4, atol=1e-8)
    torch.testing.assert_close(made.fisher["head.bias"], errors.mean(0).detach(), rtol=1e-4, atol=1e-8)
    assert [column for column in EVERY if made.fisher["head.bias"][column] > 0] == columns


@pytest.mark.parametrize("floats", [1, 30_000, 2**25])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_fisher_is_the_mean_over_examples_of_squared_gradients_in_chunks_of_any_size(
    backbone: str, floats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLOATS", floats)
    net = network(backbone, 4)
    net(batch().x)
    before = weights(net)
    made = part(net)
    made.end_task(net, STREAM.tasks[0])
    assert same(weights(net), before)
    assert same(made.anchor, {name: before[name] for name in net.stored})
    for name, expected in true_fisher(net, 0, EVERY).items():
        torch.testing.assert_close(made.fisher[name], expected, rtol=1e-3, atol=1e-7)


def test_the_fisher_is_not_the_square_of_the_mean_gradient() -> None:
    net = network()
    made = part(net)
    learn(made, net, 0)
    train = STREAM.tasks[0].train
    fit = made.fit_loss(net(STREAM.inputs.plain(train.x)), batch(24, STREAM))
    squared = dict(zip(net.stored, torch.autograd.grad(fit.mean(), list(net.stored.values()))))
    for name, mean in squared.items():
        assert made.fisher[name].sum() > 1.2 * mean.square().sum(), name


def test_normalised_the_mean_importance_that_a_task_adds_is_one_and_none_is_above_the_limit() -> None:
    net = network(width=8)
    made = part(net, normalise=True, limit=5.0)
    total = {name: torch.zeros_like(value) for name, value in net.stored.items()}
    for task in range(2):
        learn(made, net, task)
        added = true_fisher(net, task, EVERY)
        mean = torch.cat([value.flatten() for value in added.values()]).mean()
        assert max(value.max() for value in added.values()) > 5 * mean
        for name, value in added.items():
            total[name] += torch.minimum(value / mean, torch.tensor(5.0))
            torch.testing.assert_close(made.fisher[name], total[name], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("pruned", [0.0, 0.5, 0.9])
def test_pruned_weights_do_not_change_the_scale_of_the_importances(pruned: float) -> None:
    net = network(width=8)
    made = part(net, normalise=True, limit=1e9)
    name = "backbone.first.weight"
    zeros = torch.rand(net.stored[name].shape, generator=torch.Generator().manual_seed(0)) < pruned
    with torch.no_grad():
        net.stored[name].masked_fill_(zeros, 0.0)
    made.end_task(net, STREAM.tasks[0])
    expected = normalised(true_fisher(net, 0, EVERY), {name: ~zeros}, 1e9)
    for key, value in expected.items():
        torch.testing.assert_close(made.fisher[key], value, rtol=1e-3, atol=1e-6)
    total = sum(value.sum().item() for value in made.fisher.values())
    live = sum(value.numel() for value in made.fisher.values()) - int(zeros.sum())
    assert total / live == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(("examples", "seen"), [(None, 24), (5, 5), (1000, 24)])
def test_the_fisher_is_charged_as_training_on_the_examples_it_is_taken_from(examples: int | None, seen: int) -> None:
    net = network()
    made = part(net, examples=examples)
    made.end_task(net, STREAM.tasks[0])
    assert net.meter.executed_macs == {"train": 3 * seen * net.meter.dense}


def test_the_penalty_is_the_weighted_distance_from_where_the_task_ended() -> None:
    net = network(width=8)
    made = part(net, lam=50.0)
    anchor = learn(made, net, 0)
    examples = batch()
    there = made.retain_loss(net, net(examples.x), examples)
    assert there is not None
    assert there.item() == 0
    disturb(net, 9)
    away = made.retain_loss(net, net(examples.x), examples)
    assert away is not None
    assert away.item() == pytest.approx(penalty(50.0, made.fisher, anchor, net.stored), rel=1e-5)
    assert away.item() > 0.1


def test_the_gradient_of_the_penalty_is_that_of_finite_differences() -> None:
    net = network(width=8)
    made = part(net, lam=50.0)
    anchor = learn(made, net, 0)
    disturb(net, 9)
    gradients = gradient(made, net)
    for name in net.stored:
        place = int(made.fisher[name].argmax())
        values = []
        for step in (0.01, -0.01):
            moved = {each: value.detach().double().clone() for each, value in net.stored.items()}
            moved[name].view(-1)[place] += step
            values.append(penalty(50.0, made.fisher, anchor, moved))
        slope = (values[0] - values[1]) / 0.02
        assert abs(slope) > 1e-6
        assert gradients[name].flatten()[place].item() == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_old_importances_fade_by_gamma_and_the_anchor_is_the_last_one(gamma: float) -> None:
    net = network(width=8)
    made = part(net, gamma=gamma)
    learn(made, net, 0)
    first = true_fisher(net, 0, EVERY)
    last = learn(made, net, 1)
    second = true_fisher(net, 1, EVERY)
    assert same(made.anchor, last)
    for name, value in made.fisher.items():
        torch.testing.assert_close(value, gamma * first[name] + second[name], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_not_online_each_task_pulls_towards_its_own_weights(gamma: float) -> None:
    net = network(width=8)
    made = part(net, lam=7.0, gamma=gamma, online=False)
    expected = {name: torch.zeros_like(value) for name, value in net.stored.items()}
    ends = [(learn(made, net, task), true_fisher(net, task, EVERY)) for task in range(3)]
    disturb(net, 9)
    for age, (anchor, own) in enumerate(reversed(ends)):
        for name, value in net.stored.items():
            expected[name] += 7.0 * gamma**age * own[name] * (value.detach() - anchor[name])
    for name, pull in gradient(made, net).items():
        torch.testing.assert_close(pull, expected[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("normalise", [False, True])
def test_a_pruned_weight_has_no_importance_and_starting_anew_costs_no_penalty(normalise: bool) -> None:
    training = trainer("esacl-ewc", {"sparsity": {"level": 0.5}, "objective": {"normalise": normalise}})
    next(event for event in training.run() if isinstance(event, TaskDone))
    net, made = training.net, training.parts.objective
    assert isinstance(made, Ewc)
    fishers, gone = made._fisher_of(net, STREAM.tasks[0]), 0
    for name in net.partition.prunable:
        gone += int((fishers[name][net.stored[name] == 0] > 0).sum())
        fishers[name][net.stored[name] == 0] = 0
    assert gone > 100, "they do have a gradient"
    live = [v[net.stored[n] != 0] if n in net.partition.prunable else v.flatten() for n, v in fishers.items()]
    mean = torch.cat(live).mean()
    for name, value in fishers.items():
        expected = (value / mean).clamp(max=made.options.limit) if normalise else value
        torch.testing.assert_close(made.fisher[name], expected)
    before = weights(net)
    training.parts.sparsity.begin_task(net, STREAM.tasks[1])
    assert not same(weights(net), before)
    examples = batch(task=1)
    loss = made.retain_loss(net, net(examples.x), examples)
    assert loss is not None
    assert loss.item() == 0


def test_weights_that_mattered_stay_nearer_than_without_the_penalty() -> None:
    distances = []
    for lam in (0.0, 300.0):
        training = trainer("ewc", {"objective": {"lam": lam, "normalise": False}}, of=stream(tasks=2))
        kept: dict[str, Any] = {}
        for event in training.run():
            if isinstance(event, TaskDone) and event.task == 0:
                kept = deepcopy(training.parts.objective.state_dict())
        distances.append(penalty(1.0, kept["fisher"], kept["anchor"], training.net.stored))
    assert 0 < distances[1] < 0.5 * distances[0]


def test_without_weight_it_is_fine_tuning() -> None:
    plain, idle = finish(trainer("finetune")), finish(trainer("ewc", {"objective": {"lam": 0.0}}))
    assert same(weights(plain.net), weights(idle.net))


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_it_continues_from_a_saved_state_with_the_same_bits_and_shares_nothing(backbone: str, tmp_path: Any) -> None:
    net = network(backbone, 8)
    made, resumed = part(net), part(network(backbone, 8, seed=3))
    learn(made, net, 0)
    learn(resumed, network(backbone, 8), 2)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, made.state_dict())
    state, _ = checkpoints.newest()
    assert state is not None
    resumed.load_state_dict(state)
    disturb(net, 9)
    examples = batch()
    mine, theirs = (each.retain_loss(net, net(examples.x), examples) for each in (made, resumed))
    assert mine is not None
    assert theirs is not None
    assert torch.equal(mine, theirs)
    assert same(gradient(made, net), gradient(resumed, net))
    before = penalty(1.0, state["fisher"], state["anchor"], net.stored)
    learn(resumed, net, 1)
    assert penalty(1.0, state["fisher"], state["anchor"], net.stored) != before, "the weights moved"
    assert same(made.fisher, state["fisher"])
