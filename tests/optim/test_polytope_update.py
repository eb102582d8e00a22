from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.config import NetConfig
from esacl.methods import build_parts, resolve
from esacl.nets import NetTraits
from esacl.nets.network import Network
from esacl.optim.frank_wolfe import FrankWolfe
from esacl.optim.polytope_update import LONGEST_STEP, PolytopeOptions, PolytopeUpdate
from esacl.optim.update import UpdateRule
from esacl.training.events import StepDone
from tests.builders import batch, config, context, network, same, stream, trainer, weights

BACKBONES = ("mlp", "cnn", "resnet10", "resnet18")


def rule(**options: Any) -> PolytopeUpdate:
    return PolytopeUpdate(
        PolytopeOptions(**{"lr": 0.1, "k": 0.05, "radius": 2.0, "reach": 1.0, "window": 0.1, **options}), context()
    )


def built(net: Network, of: PolytopeUpdate, frozen: dict[str, Tensor] | None = None, steps: int = 10) -> FrankWolfe:
    optimizer = of.build(net, frozen or {}, steps)
    assert isinstance(optimizer, FrankWolfe)
    return optimizer


def names(net: Network, group: dict[str, Any]) -> list[str]:
    every = {id(value): name for name, value in {**net.stored, **net.extra}.items()}
    return [every[id(param)] for param in group["params"]]


def backward(net: Network) -> None:
    examples = batch()
    net.backward(cross_entropy(net(examples.x).logits, examples.y))


@pytest.mark.parametrize("backbone", BACKBONES)
def test_prunable_weights_are_in_polytopes_and_everything_else_is_trained_by_sgd(backbone: str) -> None:
    net = network(backbone, 4)
    inside, outside = built(net, rule(weight_decay=0.01, momentum=0.5, averaging=0.8)).param_groups
    assert tuple(names(net, inside)) == net.partition.prunable
    assert sorted(names(net, outside)) == sorted([*net.partition.head, *net.partition.other])
    assert (inside["polytope"], outside["polytope"]) == (True, False)
    assert (inside["momentum"], outside["momentum"]) == (0.8, 0.5)
    assert (outside["lr"], outside["weight_decay"]) == (0.1, 0.01)


def test_all_parameters_can_be_in_polytopes() -> None:
    net = network("cnn", 4)
    (inside,) = built(net, rule(holds="all")).param_groups
    assert inside["polytope"] is True
    assert names(net, inside) == list(net.stored)


@pytest.mark.parametrize("holds", ["weights", "all"])
def test_parameters_of_the_parts_own_are_trained_by_sgd(holds: str) -> None:
    net, score = network(), torch.ones(3, requires_grad=True)
    net.extra = {"score": score}
    inside, outside = built(net, rule(holds=holds, momentum=0.0)).param_groups
    assert "score" in names(net, outside)
    assert "score" not in names(net, inside)
    optimizer = built(net, rule(holds=holds, momentum=0.0))
    before = weights(net)
    score.grad = torch.tensor([1.0, 0.0, -1.0])
    optimizer.step()
    torch.testing.assert_close(score.detach(), torch.tensor([0.9, 1.0, 1.1]))
    assert same(weights(net), before)


def test_the_settings_of_the_polytope_are_handed_on() -> None:
    given = {"k": 0.3, "radius": 0.7, "radius_scale": "absolute", "scope": "global", "pull": False}
    given |= {"momentum_mode": "accumulate", "rescale": "diameter"}
    inside = built(network(), rule(**given)).param_groups[0]
    assert {name: inside[name] for name in given} == given


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize(("epochs", "steps", "reach"), [(1, 1, 0.1), (1, 7, 0.5), (3, 5, 1.2), (10, 40, 4.0)])
def test_the_steps_of_a_phase_add_up_to_the_reach(schedule: str, epochs: int, steps: int, reach: float) -> None:
    update = rule(schedule=schedule, reach=reach)
    first = built(network(), update, steps=epochs * steps).param_groups[0]["lr"]
    taken = [first * update.rate((epoch + step / steps) / epochs) for epoch in range(epochs) for step in range(steps)]
    assert sum(taken) == pytest.approx(reach)
    assert taken[0] == max(taken) == first


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_phase_too_short_for_its_reach_takes_the_longest_steps_there_are(schedule: str) -> None:
    for steps in (1, 5, 19):
        assert built(network(), rule(schedule=schedule, reach=4.0), steps=steps).param_groups[0]["lr"] == LONGEST_STEP
    assert built(network(), rule(schedule=schedule, reach=4.0), steps=60).param_groups[0]["lr"] < LONGEST_STEP


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_in_training_the_steps_of_every_task_add_up_to_the_reach(schedule: str) -> None:
    training = trainer("esacl", {"update": {"reach": 0.5, "schedule": schedule, "lr": 0.02}})
    taken: dict[int, list[float]] = {}
    for event in training.run():
        if isinstance(event, StepDone):
            assert training.optimizer is not None
            inside, outside = training.optimizer.param_groups
            taken.setdefault(event.task, []).append(inside["lr"])
            assert outside["lr"] == pytest.approx(0.02 * inside["lr"] / inside["initial_lr"])
    assert sorted(taken) == [0, 1, 2]
    for rates in taken.values():
        assert len(rates) == 6
        assert sum(rates) == pytest.approx(0.5)


def test_a_given_step_wins_over_the_reach() -> None:
    for steps in (1, 100):
        assert built(network(), rule(eta=0.25), steps=steps).param_groups[0]["lr"] == 0.25


@pytest.mark.parametrize("backbone", BACKBONES)
def test_what_is_left_open_is_filled_by_what_the_network_is(backbone: str) -> None:
    plain, images = config("esacl", net=NetConfig(backbone, 4)), stream(shape=(1, 16, 16))
    options = resolve(plain, images).options["update"]
    net = NetTraits(backbone != "mlp", backbone != "mlp", 0)
    filled = {"lr": PolytopeUpdate.rates, "radius": PolytopeUpdate.radii, "k": PolytopeUpdate.shares}
    assert {name: options[name] for name in filled} == {name: value.suited(net) for name, value in filled.items()}
    assert options["reach"] == 8.0
    assert options["eta"] is None
    given = config("esacl", {"update": {"radius": 0.5, "reach": 9.0}}, net=NetConfig(backbone, 4))
    options = resolve(given, images).options["update"]
    assert (options["lr"], options["radius"], options["reach"]) == (PolytopeUpdate.rates.suited(net), 0.5, 9.0)


def test_a_resolved_method_has_the_rule_and_without_the_polytope_sgd() -> None:
    update = build_parts(resolve(config("esacl"), stream()), context()).update
    assert isinstance(update, PolytopeUpdate)
    built(network(), update)
    plain = resolve(config("esacl", {"sparsity": {"polytope": False}}), stream())
    assert type(build_parts(plain, context()).update) is UpdateRule


@pytest.mark.parametrize("holds", ["weights", "all"])
def test_frozen_weights_stay_bit_for_bit_and_do_not_count(holds: str) -> None:
    net = network()
    draw = torch.Generator().manual_seed(0)
    frozen = {name: torch.rand(net.stored[name].shape, generator=draw) < 0.4 for name in net.partition.prunable}
    before = weights(net)
    optimizer = built(net, rule(k=0.1, holds=holds, weight_decay=0.1), frozen)
    for _ in range(3):
        backward(net)
        optimizer.step()
    polytopes = optimizer.polytopes(optimizer.param_groups[0])
    for name, mask in frozen.items():
        weight = net.stored[name].detach()
        assert torch.equal(weight[mask], before[name][mask])
        assert not torch.equal(weight[~mask], before[name][~mask])
        assert polytopes[net.stored[name]].k == round(0.1 * int((~mask).sum()))


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_a_step_moves_every_parameter_and_leaves_weights_inside_their_polytopes(backbone: str, scope: str) -> None:
    net = network(backbone, 8)
    before = weights(net)
    optimizer = built(net, rule(scope=scope, radius=0.5, reach=2.0, pull=True))
    for _ in range(3):
        backward(net)
        optimizer.step()
    assert all(not torch.equal(value.detach(), before[name]) for name, value in net.stored.items())
    polytopes = optimizer.polytopes(optimizer.param_groups[0])
    assert len(polytopes) == len(net.partition.prunable)
    together = torch.cat([param.detach().flatten() for param in polytopes])
    for param, polytope in polytopes.items():
        assert polytope.contains(param.detach() if scope == "layer" else together)


@pytest.mark.parametrize(("steps", "expected"), [(1, 0.0), (10, 0.0), (20, 0.5), (100, 0.9), (1000, 0.99)])
def test_the_momentum_looks_back_on_the_window_however_long_a_task_is(steps: int, expected: float) -> None:
    group = built(network(), rule(window=0.1), steps=steps).param_groups[0]
    assert group["momentum"] == pytest.approx(expected)
    assert built(network(), rule(averaging=0.3), steps=steps).param_groups[0]["momentum"] == 0.3
