from math import cos, pi

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.optim.update import SgdOptions, UpdateRule
from esacl.training.events import EpochDone, StepDone, TaskDone
from tests.builders import batch, context, network, same, trainer, weights


def rule(**options: float | str) -> UpdateRule:
    return UpdateRule(SgdOptions(**{"lr": 0.1, **options}), context())  # type: ignore[arg-type]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_rule_is_torchs_sgd_bit_for_bit(backbone: str, momentum: float, decay: float) -> None:
    mine, theirs = network(backbone), network(backbone)
    optimizers = (
        rule(momentum=momentum, weight_decay=decay).build(mine, {}, 1),
        torch.optim.SGD(theirs.model.parameters(), lr=0.1, momentum=momentum, weight_decay=decay),
    )
    examples = batch()
    for _ in range(4):
        for net, optimizer in zip((mine, theirs), optimizers):
            net.backward(cross_entropy(net(examples.x).logits, examples.y))
            optimizer.step()
    assert same(weights(mine), weights(theirs))
    assert not same(weights(mine), weights(network(backbone)))


def test_the_rule_is_the_textbooks_momentum_with_weight_decay() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    net = network()
    net.stored = {"weight": weight}
    optimizer = rule(momentum=0.5, weight_decay=0.1).build(net, {}, 1)
    expected, velocity = [1.0, -2.0], [0.0, 0.0]
    for _ in range(3):
        weight.grad = torch.tensor([0.3, 0.7])
        optimizer.step()
        for k, gradient in enumerate((0.3, 0.7)):
            velocity[k] = 0.5 * velocity[k] + gradient + 0.1 * expected[k]
            expected[k] -= 0.1 * velocity[k]
    assert weight.tolist() == pytest.approx(expected, rel=1e-5)


def test_parameters_of_the_parts_own_are_trained_too() -> None:
    net, score = network(), torch.ones(3, requires_grad=True)
    net.extra = {"score": score}
    optimizer = rule(momentum=0).build(net, {}, 1)
    before = weights(net)
    score.grad = torch.tensor([1.0, 0.0, -1.0])
    optimizer.step()
    torch.testing.assert_close(score.detach(), torch.tensor([0.9, 1.0, 1.1]))
    assert same(weights(net), before)


def test_the_constant_schedule_is_constant_and_the_cosine_falls_from_one_to_zero() -> None:
    assert [rule(schedule="constant").rate(p) for p in (0.0, 0.3, 1.0)] == [1.0, 1.0, 1.0]
    falling = rule(schedule="cosine")
    assert falling.rate(0.0) == 1.0
    assert falling.rate(0.5) == pytest.approx(0.5)
    assert falling.rate(1.0) == pytest.approx(0.0)
    rates = [falling.rate(k / 20) for k in range(21)]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_learning_rate_follows_the_schedule_within_every_task_anew(schedule: str) -> None:
    training = trainer("finetune", {"update": {"lr": 0.2, "schedule": schedule}})
    seen: list[float] = []
    for event in training.run():
        if isinstance(event, StepDone):
            assert training.optimizer is not None
            seen.append(training.optimizer.param_groups[0]["lr"])
    steps = 2 * 3  # two epochs of 24 examples in batches of 8
    assert len(seen) == 3 * steps
    for k, rate in enumerate(seen):
        progress = (k % steps) / steps
        expected = 0.2 if schedule == "constant" else 0.2 * 0.5 * (1 + cos(pi * progress))
        assert rate == pytest.approx(expected, rel=1e-9)


def test_momentum_does_not_outlive_a_task() -> None:
    def velocities(training_state: dict[str, object] | None) -> int:
        return 0 if training_state is None else len(training_state["state"])  # type: ignore[arg-type]

    training = trainer("finetune")
    boundaries = (event for event in training.run() if isinstance(event, EpochDone | TaskDone))
    counts = [velocities(training.state_dict()["optimizer"]) for _ in boundaries]
    assert counts == [6, 6, 0] * 3


def test_a_step_with_a_zero_learning_rate_moves_nothing() -> None:
    net = network()
    optimizer = rule(lr=0.0, weight_decay=0.5).build(net, {}, 1)
    before: dict[str, Tensor] = weights(net)
    net.backward(net(batch().x).logits.sum())
    optimizer.step()
    assert same(weights(net), before)
