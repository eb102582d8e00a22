"""The masks of SparCL on small networks without any training: weights and gradients are made up."""

from copy import deepcopy
from typing import Any

import pytest
import torch

from esacl.config import Config
from esacl.errors import ConfigError
from esacl.methods import method, resolve
from esacl.metrics.capacity import measured_capacity
from esacl.nets import Network
from esacl.ranking import largest
from esacl.rng import generator
from esacl.sparsity.sparcl import Sparcl, SparclOptions, block_convolutions
from esacl.types import Params
from tests.builders import context, network, same, stream
from tests.reference.sparcl import Masks
from tests.sparsity.strategies import count, places, prunable, small, task


def masked(net: Network, epochs: int = 10, seed: int = 0, **options: Any) -> Sparcl:
    """The strategy, attached to a network."""
    made = Sparcl(SparclOptions(**{"grow": "importance", **options}), context(epochs=epochs, seed=seed))
    made.attach(net)
    return made


def noise(net: Network, *names: str | int) -> Params:
    """A number for each prunable weight, in eighths: with ties, and without rounding in sums."""
    draws = {name: generator(0, name, *names) for name in net.partition.prunable}
    return {name: (4 * torch.randn(net.stored[name].shape, generator=draw)).round() / 8 for name, draw in draws.items()}


@torch.no_grad()
def step(net: Network, strategy: Sparcl, *names: str | int, memory: Params | None = None) -> Params:
    """A step with made-up gradients and a made-up displacement, mended as in training. Returns the gradients."""
    gradients = noise(net, "gradient", *names)
    strategy.observe_gradients(gradients, lambda: memory or {})
    moves = noise(net, "move", *names)
    for name in strategy.constrained():
        before = net.stored[name].detach().clone()
        net.stored[name].copy_(strategy.constrain(name, before, before + moves[name]))
    return gradients


@pytest.mark.parametrize("with_memory", [False, True])
@pytest.mark.parametrize("epochs", [1, 2, 10])
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_the_masks_agree_with_the_naive_twin_after_every_step(rule: str, epochs: int, with_memory: bool) -> None:
    net = small()
    with torch.no_grad():
        for name, values in noise(net, "start").items():
            net.stored[name].copy_(values)
    start = prunable(net)
    strategy = masked(net, epochs, level=0.7, rule=rule, adjust=0.05, dgm=False, alpha=0.5, beta=2)
    twins = {
        name: Masks(start[name].flatten().tolist(), rule, count({name: live}), round(0.05 * live.numel()))
        for name, live in strategy.live.items()
    }

    def agree() -> None:
        for name, twin in twins.items():
            assert set(strategy.live[name].flatten().nonzero().squeeze(1).tolist()) == twin.live
            assert [value != 0 for value in net.stored[name].flatten()] == [value != 0 for value in twin.weights]

    agree()
    for number in range(3):
        strategy.begin_task(net, task(number))
        for epoch in range(epochs):
            counts = {name: twin.epoch(number, epoch, epochs) for name, twin in twins.items()}
            strategy.begin_epoch(net, epoch)
            for at in range(2):
                memory = noise(net, "memory", number, epoch) if with_memory else {}
                gradients = step(net, strategy, number, epoch, at, memory=memory)
                for name, twin in twins.items():
                    slopes = 0.5 * gradients[name].abs()
                    if rule == "paper" and with_memory:
                        slopes += 2 * memory[name].abs()
                    if rule == "code" and at == 0:
                        drawn = torch.rand(slopes.shape, generator=generator(0, "grow", number, epoch, name))
                        twin.change(counts[name], drawn.flatten().tolist() if epoch == 0 else twin.slopes)
                    if rule == "code" or at == 0:
                        twin.slopes = slopes.flatten().tolist()
                    if rule == "paper" and at == 0:
                        twin.change(counts[name], twin.slopes)
                    twin.weights = net.stored[name].flatten().tolist()
                agree()
        strategy.end_task(net, task(number), None)
        for twin in twins.values():
            twin.end()
        agree()


@pytest.mark.parametrize("grow", ["importance", "random"])
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_weights_come_to_life_at_0_also_where_they_were_dropped_just_before(rule: str, grow: str) -> None:
    net = small()
    strategy = masked(net, 10, level=0.5, rule=rule, grow=grow, adjust=0.2, dgm=False, tdm=True)
    strategy.begin_task(net, task(0))
    seen = 0
    for epoch in range(9):
        before = {name: live.clone() for name, live in strategy.live.items()}
        values = prunable(net)
        strategy.begin_epoch(net, epoch)
        strategy.observe_gradients(noise(net, epoch), dict)
        for name, live in strategy.live.items():
            weight = net.stored[name].detach()
            new = live & ~before[name]
            seen += int(new.sum())
            assert (weight[new] == 0).all()
            assert (weight[~live] == 0).all()
            stays = live & (weight != 0)
            assert torch.equal(weight[stays], values[name][stays])
        with torch.no_grad():
            for name, live in strategy.live.items():
                net.stored[name].add_(0.1 * noise(net, "step", epoch)[name] * live)
    assert seen > 50


def test_random_growth_depends_on_the_seed_and_on_task_and_epoch() -> None:
    found = []
    for seed, number, epoch in ((0, 0, 1), (0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 0, 2)):
        net = small()
        strategy = masked(net, 10, seed, level=0.5, rule="code", grow="random", adjust=0.2)
        strategy.begin_task(net, task(number))
        strategy.begin_epoch(net, epoch)
        found.append(places(strategy.live))
    assert found[0] == found[1]
    assert len({frozenset(one) for one in found}) == 4


def test_what_matters_to_the_memory_is_kept_by_the_papers_rule_and_unknown_to_the_codes() -> None:
    for rule, kept in (("paper", True), ("code", False)):
        net = small()
        strategy = masked(net, 10, level=0.5, rule=rule, adjust=0.1, dgm=False, beta=100)
        sizes = {name: net.stored[name].detach().abs().masked_fill(~live, 9) for name, live in strategy.live.items()}
        weakest = {name: largest(-size, 5) for name, size in sizes.items()}
        memory = {name: mask.float() for name, mask in weakest.items()}
        strategy.begin_task(net, task(0))
        strategy.begin_epoch(net, 1)
        nothing = {name: torch.zeros_like(mask, dtype=torch.float32) for name, mask in weakest.items()}
        strategy.observe_gradients(nothing, lambda memory=memory: memory)
        for name, mask in weakest.items():
            assert [value != 0 for value in net.stored[name][mask].tolist()] == [kept] * 5


@pytest.mark.parametrize("level", [0.0, 0.3, 0.8, 0.99, 0.9999])
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_no_level_empties_a_network_that_has_something_left(rule: str, level: float) -> None:
    net = network("cnn", 16)
    strategy = masked(net, 4, level=level, rule=rule, adjust=0.5)
    goal = round((1 - level) * sum(live.numel() for live in strategy.live.values()))
    for number in range(2):
        strategy.begin_task(net, task(number))
        for epoch in range(4):
            strategy.begin_epoch(net, epoch)
            step(net, strategy, number, epoch)
            assert count(strategy.live) >= goal
        strategy.end_task(net, task(number), None)
        assert count(strategy.live) == goal


@pytest.mark.parametrize("rule", ["paper", "code"])
def test_either_rule_masks_the_3x3_convolutions_of_blocks_alone(rule: str) -> None:
    net = network("resnet10", 4, (3, 16, 16))
    strategy = masked(net, level=0.9, rule=rule)
    names = block_convolutions(net)
    assert set(names) == {name for name in net.partition.prunable if ".conv1." in name or ".conv2." in name}
    assert len(names) == 8
    assert all(net.stored[name].shape[2:] == (3, 3) for name in names)
    shares = strategy.density(net)
    assert {name for name, share in shares.items() if share == 1} == set(net.partition.prunable) - set(names)
    masks = {name: strategy.live[name] for name in names}
    assert count(masks) == round(0.1 * sum(mask.numel() for mask in masks.values()))
    assert set(strategy.constrained()) == set(names)


@pytest.mark.parametrize("rule", ["paper", "code"])
def test_all_prunable_layers_are_masked_where_that_is_asked_for(rule: str) -> None:
    net = network("resnet10", 4, (3, 16, 16))
    strategy = masked(net, level=0.9, rule=rule, layers="all")
    assert set(strategy.constrained()) == set(net.partition.prunable)
    assert count(strategy.live) == round(0.1 * sum(live.numel() for live in strategy.live.values()))
    assert all(abs(share - 0.1) < 0.02 for share in strategy.density(net).values())


def test_a_network_without_blocks_is_masked_everywhere_by_either_rule() -> None:
    for backbone in ("mlp", "cnn"):
        net = network(backbone, 8)
        strategies = [masked(net, rule=rule) for rule in ("paper", "code")]
        assert places(strategies[0].live) == places(strategies[1].live)
        assert all(set(strategy.constrained()) == set(net.partition.prunable) for strategy in strategies)


def test_weights_that_will_grow_in_the_first_step_are_charged_for_the_whole_epoch() -> None:
    net = small()
    strategy = masked(net, 2, level=0.5, adjust=0.1)
    strategy.begin_task(net, task(1))
    strategy.begin_epoch(net, 0)
    charged = strategy.density(net)
    step(net, strategy, 0)
    assert strategy.density(net) == charged
    assert all(share > 0.55 for share in charged.values())


def test_one_mask_is_stored_and_charged() -> None:
    net = small()
    strategy = masked(net, level=0.5)
    sizes = {name: net.stored[name].numel() for name in net.partition.prunable}
    (mask,) = strategy.masks(net)
    assert mask.keys() == sizes.keys()
    assert measured_capacity(0.5, sizes, strategy.masks(net)) > 0.5
    assert not strategy.stores_masks


def test_it_continues_from_a_saved_state_with_the_same_masks() -> None:
    for rule in ("paper", "code"):
        nets = [small(), small()]
        strategies = [masked(net, 10, level=0.6, rule=rule) for net in nets]
        for net, strategy, rounds in zip(nets, strategies, (4, 2)):
            strategy.begin_task(net, task(1))
            for epoch in range(rounds):
                strategy.begin_epoch(net, epoch)
                step(net, strategy, rule, rounds, epoch)
        state = deepcopy(strategies[0].state_dict())
        nets[1].load_state_dict(nets[0].state_dict())
        strategies[1].load_state_dict(state)
        for net, strategy in zip(nets, strategies):
            for epoch in range(4, 10):
                strategy.begin_epoch(net, epoch)
                step(net, strategy, epoch)
            strategy.end_task(net, task(1), None)
        assert same(strategies[0].live, strategies[1].live)
        assert same(prunable(nets[0]), prunable(nets[1]))
        assert not torch.equal(
            state["live"]["backbone.first.weight"], strategies[0].state_dict()["live"]["backbone.first.weight"]
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("level", 1.0),
        ("level", -0.1),
        ("rule", "both"),
        ("layers", "some"),
        ("grow", "all"),
        ("adjust", 1.5),
        ("interval", 0),
        ("share", 0),
        ("refresh", 0),
        ("alpha", -1),
        ("tdm", "no"),
        ("ddr", 0),
        ("dgm", None),
    ],
)
def test_settings_that_mean_nothing_are_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"sparsity\.{name} = .* is not allowed\. Allowed: "):
        resolve(Config("sparcl-er", options={"sparsity": {name: value}}), stream())


def test_how_masks_grow_belongs_to_the_rule_unless_it_is_said() -> None:
    for given, expected in (({}, "importance"), ({"rule": "code"}, "random"), ({"grow": "random"}, "random")):
        assert resolve(Config("sparcl", options={"sparsity": given}), stream()).options["sparsity"]["grow"] == expected


def test_on_a_method_that_claims_one_of_its_slots_it_is_refused_with_the_slot() -> None:
    with pytest.raises(ConfigError, match="Sparcl and Esacl both claim the sparsity slot"):
        method("sparcl-esacl-er")
    with pytest.raises(ConfigError, match="Esacl and Sparcl both claim the sparsity slot"):
        method("esacl-sparcl")
    with pytest.raises(ConfigError, match="unknown method 'sparcl-lwff'"):
        method("sparcl-lwff")
