from math import sqrt

import pytest
import torch

from esacl.nets import Network
from esacl.sparsity.esacl import Esacl
from tests.builders import network, same, weights
from tests.sparsity.strategies import count, places, prunable, pruning, scramble, small, task


def expanded(seed: int = 0, index: int = 1, backbone: str = "mlp", expand: str = "kaiming") -> tuple[Network, Esacl]:
    """A network whose first task was pruned and whose next one begins; both layers of the MLP are 64×64."""
    net = network(backbone, 64 if backbone == "mlp" else 16)
    strategy = pruning(net, seed=seed, expand=expand)
    strategy.end_task(net, task(0), None)
    strategy.begin_task(net, task(index))
    return net, strategy


def free(net: Network, strategy: Esacl) -> dict[str, torch.Tensor]:
    """The weights that no task has kept, by layer."""
    return {name: net.stored[name].detach()[~kept] for name, kept in strategy.kept.items()}


@pytest.mark.parametrize("expand", ["kaiming", "zero"])
def test_expansion_leaves_kept_weights_and_everything_that_is_not_pruned_alone(expand: str) -> None:
    net = network("cnn", 8)
    strategy = pruning(net, expand=expand)
    strategy.end_task(net, task(0), None)
    before = weights(net)
    strategy.begin_task(net, task(1))
    for name, value in weights(net).items():
        kept = strategy.kept.get(name, torch.ones_like(value, dtype=torch.bool))
        assert torch.equal(value[kept], before[name][kept])


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_free_weights_start_into_the_next_task_as_fresh_weights_do(backbone: str) -> None:
    for name, values in (found := free(*expanded(backbone=backbone))).items():
        fan_in = network(backbone, 64 if backbone == "mlp" else 16).stored[name][0].numel()
        scale, n = sqrt(2 / fan_in), len(values)
        assert abs(float(values.mean())) < 5 * scale / sqrt(n)
        assert abs(float(values.std()) / scale - 1) < 5 / sqrt(2 * n)
        assert abs(float((values.abs() < scale).float().mean()) - 0.6827) < 2.5 / sqrt(n)
        assert bool((values != 0).all())
    assert found


def test_fresh_weights_depend_on_the_seed_the_task_and_the_layer() -> None:
    net, strategy = expanded()
    plain = prunable(net)
    assert same(prunable(expanded()[0]), plain)
    shared = ~(strategy.kept["backbone.first.weight"] | strategy.kept["backbone.second.weight"])
    first, second = plain["backbone.first.weight"][shared], plain["backbone.second.weight"][shared]
    assert not bool((first == second).any())
    for other in (expanded(seed=1), expanded(index=2)):
        for name, values in free(*other).items():
            assert not bool((values == plain[name][~strategy.kept[name]]).any())


def test_fresh_weights_neither_read_nor_move_the_global_generator() -> None:
    results = []
    for number in (1, 2):
        torch.manual_seed(number)
        before = torch.get_rng_state()
        results.append(prunable(expanded()[0]))
        assert torch.equal(torch.get_rng_state(), before)
    assert same(*results)


def test_free_weights_may_start_at_zero_instead() -> None:
    assert all(bool((values == 0).all()) for values in free(*expanded(expand="zero")).values())


def test_the_first_task_starts_with_the_weights_of_the_network() -> None:
    net = small()
    before = weights(net)
    pruning(net).begin_task(net, task(0))
    assert same(weights(net), before)


def test_a_zero_takes_no_place_and_what_a_task_leaves_over_goes_to_the_next() -> None:
    net = small()
    strategy = pruning(net, level=0.5, expand="zero")
    total = sum(kept.numel() for kept in strategy.kept.values())
    strategy.end_task(net, task(0), None)
    after_first = count(strategy.kept)
    assert after_first == round(total / 2 / 3)
    strategy.begin_task(net, task(1))
    name = "backbone.second.weight"
    moved = (~strategy.kept[name]).nonzero()[:3]
    with torch.no_grad():
        net.stored[name][tuple(moved.T)] = 1e-30
    before = places(strategy.kept)
    strategy.end_task(net, task(1), None)
    assert count(strategy.kept) == after_first + 3
    assert places(strategy.kept) - before == {(name, int(row * 8 + column)) for row, column in moved}
    strategy.begin_task(net, task(2))
    scramble(net, strategy, 2)
    strategy.end_task(net, task(2), None)
    assert count(strategy.kept) == total // 2
