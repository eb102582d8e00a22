from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.cli import app
from esacl.config import Config
from esacl.errors import ConfigError
from esacl.methods import METHODS, Method, combine, resolve
from esacl.methods.catalogue import ESACL
from esacl.nets import Network
from esacl.objectives.er import Er
from esacl.optim.la_maml import LearnedRates, Lookahead, RateOptions, RatesFirst
from esacl.training.events import EpochDone, StepDone
from esacl.training.parts import Parts
from esacl.training.step import train_step
from tests.builders import batch, finish, network, parts, same, stream, trainer, weights
from tests.reference.la_maml import move

START, RATES = [1.0, -2.0, 3.0], [0.1, 0.2, 0.05]
BY, RATES_BY = [0.6, -0.8, 2.0], [-1.0, 0.5, 0.7]


def composition(net: Network, **options: Any) -> Parts:
    composed = parts("la-maml", options)
    composed.attach(net)
    return composed


def rates_of(composed: Parts) -> dict[str, Tensor]:
    assert isinstance(composed.update, LearnedRates)
    return composed.update.learned


def one_step(clip: float, share: float = 1.0) -> tuple[Tensor, Tensor]:
    """Three weights and their rates after a step."""
    weight, rate = (torch.tensor(values, requires_grad=True) for values in (START, RATES))
    weight.grad, rate.grad = torch.tensor(BY), torch.tensor(RATES_BY)
    optimizer = RatesFirst([weight], [rate], [], RateOptions(lr=0.1, clip=clip))
    for group in optimizer.param_groups:
        group["lr"] *= share
    optimizer.step()
    return weight.detach(), rate.detach()


@pytest.mark.parametrize("clip", [0.5, 1.5, 100.0])
def test_a_step_moves_the_rates_first_and_the_weights_by_the_new_rates(clip: float) -> None:
    weight, rate = one_step(clip)
    moved, learned = move(START, RATES, BY, RATES_BY, 0.3, clip)
    assert weight.tolist() == pytest.approx(moved, rel=1e-5)
    assert rate.tolist() == pytest.approx(learned, rel=1e-5)


def test_a_rate_below_zero_moves_nothing() -> None:
    weight, rate = one_step(100.0)
    assert rate[2] < 0
    assert weight[2] == START[2]
    assert (weight[:2] != torch.tensor(START[:2])).all()


def test_the_schedule_shortens_the_steps_of_weights_and_rates_alike() -> None:
    weight, rate = one_step(100.0, share=0.5)
    learned = torch.tensor(RATES) - 0.5 * 0.3 * torch.tensor(RATES_BY)
    torch.testing.assert_close(rate, learned)
    torch.testing.assert_close(weight, torch.tensor(START) - 0.5 * learned.clamp(min=0) * torch.tensor(BY))


def test_the_rates_start_at_the_learning_rate_that_was_given_and_are_told_as_such() -> None:
    training = trainer("la-maml", {"update": {"lr": 0.07, "schedule": "cosine"}})
    assert all((rate == 0.07).all() for rate in rates_of(training.parts).values())
    told = [event.lr for event in training.run() if isinstance(event, EpochDone)]
    assert told[0] == pytest.approx(0.07 * 0.75)  # before the last of six steps along a cosine of two epochs
    assert told[1] < told[0]


def test_every_weight_has_a_rate_of_its_own_in_the_networks_extra_parameters() -> None:
    net = network("cnn", 4)
    rates = rates_of(composition(net))
    assert rates.keys() == net.stored.keys()
    for name, value in net.stored.items():
        assert net.extra[f"update.{name}"] is rates[name]
        assert rates[name].shape == value.shape
        assert rates[name].stride() == value.stride()


def test_the_rates_are_learned_over_all_tasks_and_a_dead_one_holds_its_weight_still() -> None:
    training = trainer("la-maml")
    net, rates = training.net, rates_of(training.parts)
    before = weights(net)
    with torch.no_grad():
        rates["backbone.first.weight"][0] = -0.1
    epochs = (event for event in training.run() if isinstance(event, EpochDone))
    seen = [rates["backbone.first.weight"].detach().clone() for _ in epochs]
    assert len(seen) == 6
    after = weights(net)
    assert torch.equal(after["backbone.first.weight"][0], before["backbone.first.weight"][0])
    assert not torch.equal(after["backbone.first.weight"][1], before["backbone.first.weight"][1])
    assert all((later[1:] != earlier[1:]).any() for earlier, later in pairwise(seen))
    assert all((one[0] == -0.1).all() for one in seen)


def test_with_a_rate_of_zero_for_the_rates_they_stay() -> None:
    training = finish(trainer("la-maml", {"update": {"lr": 0.2, "rate_lr": 0.0}}))
    assert all((rate == 0.2).all() for rate in rates_of(training.parts).values())


def test_a_parameter_of_another_part_moves_at_the_initial_rate() -> None:
    net = network()
    composed = composition(net, update={"lr": 0.25})
    score, idle = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    net.extra |= {"selection.score": score, "selection.idle": idle}
    optimizer = composed.update.build(net, {}, 1)
    score.grad = torch.tensor([4.0, -8.0])
    optimizer.step()
    assert score.tolist() == [0.0, 3.0]
    assert idle.tolist() == [1.0, 1.0]


def test_clipping_is_of_gradients_at_their_true_scale_in_16_bit_arithmetic() -> None:
    moved = []
    for precision in ("32", "16"):
        net = network(precision=precision)
        composed = composition(net, update={"clip": 0.1})
        before = weights(net)
        train_step(net, composed, composed.update.build(net, {}, 1), batch())
        moved.append(torch.cat([(value - before[name]).flatten() for name, value in weights(net).items()]))
    assert moved[0].norm().item() == pytest.approx(0.01, rel=0.1)
    assert (moved[0] - moved[1]).norm() < 0.05 * moved[0].norm()


@pytest.mark.parametrize("glances", [1, 3])
def test_a_batch_is_stepped_on_at_every_glance_and_stored_once(glances: int) -> None:
    net = network()
    composed = composition(net, gradient={"glances": glances}, objective={"buffer": 50})
    objective = composed.objective
    assert isinstance(objective, Er)
    objective.begin_task(net, stream().tasks[0])
    optimizer = composed.update.build(net, {}, 1)
    steps: list[dict[str, Tensor]] = []
    optimizer.register_step_post_hook(lambda *_: steps.append(weights(net)))
    train_step(net, composed, optimizer, batch())
    assert len(steps) == glances
    assert all(not same(one, other) for one, other in pairwise(steps))
    assert objective.memory.seen == len(objective.memory) == 8


def test_a_saved_state_is_a_copy_and_comes_back_into_the_same_tensors() -> None:
    net = network()
    composed = composition(net)
    rates, saved = rates_of(composed), composed.update.state_dict()
    with torch.no_grad():
        for rate in rates.values():
            rate.add_(1)
    assert all((value == composed.update.options.lr).all() for value in saved["learned"].values())
    composed.update.load_state_dict(saved)
    for name in net.stored:
        assert net.extra[f"update.{name}"] is rates[name]
        assert torch.equal(rates[name], saved["learned"][name])
        assert rates[name].requires_grad


def test_a_saved_optimiser_continues_at_the_rates_of_its_schedule() -> None:
    whole, fresh = trainer("la-maml"), trainer("la-maml")
    events = whole.run()
    while not isinstance(next(events), StepDone):
        pass
    assert whole.optimizer is not None
    for group in whole.optimizer.param_groups:
        group["lr"] *= 0.5
    resumed = fresh.parts.update.build(fresh.net, {}, 1)
    resumed.load_state_dict(whole.optimizer.state_dict())
    assert [group["lr"] for group in resumed.param_groups] == [0.15, 0.05, 0.05]
    assert [group["initial_lr"] for group in resumed.param_groups] == [0.3, 0.1, 0.1]
    assert resumed.param_groups[2]["params"][0] is next(iter(fresh.net.stored.values()))


def test_divergence_is_told_with_both_rates() -> None:
    assert "{update.lr} than 0.1, or a smaller {update.rate_lr} than 0.3." in trainer("la-maml").parts.update.remedy


def test_esacl_on_top_is_refused_with_the_slot_that_both_claim() -> None:
    message = "SharpnessAware and Lookahead both claim the gradient slot, which only one can fill. Combine methods that"
    with pytest.raises(ConfigError, match=message):
        combine("x", ESACL, METHODS["la-maml"])
    with pytest.raises(ConfigError, match=message):
        app(["run", "--method", "esacl-la-maml"], exit_on_error=False, print_error=False)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"gradient": Lookahead}, "x: the look-ahead needs learned rates. Fill the update slot with LearnedRates"),
        ({"update": LearnedRates}, "x: learned rates need the look-ahead. Fill the gradient slot with Lookahead"),
    ],
)
def test_one_half_of_the_method_alone_is_refused(parts: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "x", Method("half", parts))
    with pytest.raises(ConfigError, match=message):
        resolve(Config("x"), stream())
