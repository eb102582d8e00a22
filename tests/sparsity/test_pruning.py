from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from esacl.config import NetConfig
from esacl.nets import Network
from esacl.sparsity.esacl import Esacl, EsaclOptions
from esacl.sparsity.quotas import QUOTAS
from esacl.streams.base import Examples, Task
from esacl.types import Context, Params
from tests.builders import finish, network, same, trainer
from tests.reference.pruning import keep
from tests.sparsity.strategies import count, places, prunable, pruning, scramble, small, task


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("scope", ["adaptive", "global", "layer"])
@pytest.mark.parametrize("quota", QUOTAS)
def test_the_kept_weights_agree_with_the_naive_twin_after_every_task(
    quota: str, scope: str, decimals: int | None
) -> None:
    net = small()
    strategy = pruning(net, tasks=4, level=0.7, quota=quota, scope=scope, ratio=0.3)
    expected: set[tuple[str, int]] = set()
    for index in range(4):
        strategy.begin_task(net, task(index))
        scramble(net, strategy, index, decimals)
        before = prunable(net)
        expected = keep(before, expected, 0.7, index, 4, quota, 0.3, scope)
        strategy.end_task(net, task(index), None)
        assert places(strategy.kept) == expected
        for name, weight in prunable(net).items():
            assert torch.equal(weight, torch.where(strategy.kept[name], before[name], 0.0))


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_kept_weights_agree_with_the_naive_twin_after_every_trained_task(backbone: str) -> None:
    seen: list[tuple[Params, set[tuple[str, int]]]] = []

    class Noted(Esacl):
        def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
            before = prunable(net)
            super().end_task(net, task, remembered)
            seen.append((before, places(self.kept)))

    def noted(known: Context) -> Noted:
        return Noted(EsaclOptions(level=0.8), known)

    finish(trainer("esacl-er", replacing={"sparsity": noted}, net=NetConfig(backbone, 4)))
    expected: set[tuple[str, int]] = set()
    assert len(seen) == 3
    for index, (before, kept) in enumerate(seen):
        expected = keep(before, expected, 0.8, index, 3, scope="adaptive")
        assert kept == expected


@given(
    st.sampled_from(QUOTAS),
    st.sampled_from(["adaptive", "global", "layer"]),
    st.floats(0, 0.9999),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 5),
)
@settings(max_examples=40, deadline=None)
def test_all_tasks_together_keep_exactly_the_budget(
    quota: str, scope: str, level: float, tasks: int, width: int, pixels: int
) -> None:
    net = small(width, shape=(1, pixels, pixels))
    strategy = pruning(net, tasks, level=level, quota=quota, scope=scope)
    for index in range(tasks):
        strategy.begin_task(net, task(index))
        strategy.end_task(net, task(index), None)
    sizes = {name: mask.numel() for name, mask in strategy.kept.items()}
    if scope == "layer":
        shares = {name: int(mask.sum()) for name, mask in strategy.kept.items()}
        assert shares == {name: round((1 - level) * size) for name, size in sizes.items()}
    else:
        assert count(strategy.kept) == round((1 - level) * sum(sizes.values()))
    for name, weight in prunable(net).items():
        assert torch.equal(weight != 0, strategy.kept[name])


def test_layers_compete_only_where_the_scope_is_global() -> None:
    shares = {}
    for scope in ("global", "layer"):
        net = small()
        with torch.no_grad():
            net.stored["backbone.first.weight"].mul_(100)
        strategy = pruning(net, tasks=1, level=0.5, scope=scope)
        strategy.end_task(net, task(0), None)
        shares[scope] = strategy.density(net)
    assert shares["layer"] == {"backbone.first.weight": 0.5, "backbone.second.weight": 0.5}
    assert shares["global"]["backbone.first.weight"] > 0.5
    assert shares["global"]["backbone.second.weight"] == 0


def test_adaptive_competition_does_not_depend_on_the_scale_of_a_layer() -> None:
    shares = []
    for scale in (0.01, 1, 100):
        net = small()
        with torch.no_grad():
            net.stored["backbone.first.weight"].mul_(scale)
        strategy = pruning(net, tasks=1, level=0.5, scope="adaptive")
        strategy.end_task(net, task(0), None)
        shares.append(strategy.density(net))
    assert shares[0] == shares[1] == shares[2]
    assert len(set(shares[0].values())) == 2, "layers do compete"


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_only_convolutions_and_linear_layers_outside_the_head_are_pruned(backbone: str) -> None:
    net = network(backbone, 4)
    strategy = pruning(net, tasks=1, level=0.9, recalibrate="no")
    before = deepcopy(net.model.state_dict())
    strategy.end_task(net, task(0), None)
    changed = {name for name, value in net.model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == set(net.partition.prunable)


def test_a_level_of_zero_keeps_everything() -> None:
    net = small()
    strategy = pruning(net, level=0)
    for index in range(3):
        strategy.begin_task(net, task(index))
        before = prunable(net)
        strategy.end_task(net, task(index), None)
    assert same(prunable(net), before)
    assert strategy.density(net) == dict.fromkeys(net.partition.prunable, 1.0)
    assert all(bool(mask.all()) for mask in strategy.frozen().values())


def test_the_literal_quota_leaves_nothing_for_later_tasks() -> None:
    net = small()
    strategy = pruning(net, level=0.8, quota="literal")
    strategy.end_task(net, task(0), None)
    first = prunable(net)
    for index in (1, 2):
        strategy.begin_task(net, task(index))
        assert not same(prunable(net), first)
        strategy.end_task(net, task(index), None)
        assert same(prunable(net), first)


def test_nothing_is_frozen_or_constrained_before_the_first_task_has_ended() -> None:
    net = small()
    strategy = pruning(net)
    assert not strategy.frozen()
    assert not strategy.constrained()
    strategy.end_task(net, task(0), None)
    assert set(strategy.frozen()) == set(strategy.constrained()) == set(net.partition.prunable)


def test_a_constrained_step_moves_the_free_weights_only() -> None:
    net = small()
    strategy = pruning(net)
    strategy.end_task(net, task(0), None)
    for name, mask in strategy.frozen().items():
        before, after = torch.zeros(mask.shape), torch.ones(mask.shape)
        assert torch.equal(strategy.constrain(name, before, after), (~mask).float())


def test_the_state_survives_the_way_into_a_strategy_that_was_used_for_something_else() -> None:
    net, other = small(), small(seed=9)
    strategy, fresh = pruning(net), pruning(other, seed=9)
    strategy.end_task(net, task(0), None)
    for index in (0, 1):
        fresh.begin_task(other, task(index))
        fresh.end_task(other, task(index), None)
    state = strategy.state_dict()
    then = deepcopy(state)
    fresh.load_state_dict(state)
    assert same(fresh.kept, strategy.kept)
    assert same(fresh.frozen(), strategy.frozen())
    scramble(net, strategy, 1)
    strategy.end_task(net, task(1), None)
    assert same(state["kept"], then["kept"]), "what was saved does not change afterwards"
    assert same(fresh.state_dict()["kept"], then["kept"]), "nor does what was loaded"


def test_the_state_of_before_the_first_pruning_unfreezes() -> None:
    net = small()
    strategy = pruning(net)
    untouched = strategy.state_dict()
    strategy.end_task(net, task(0), None)
    strategy.load_state_dict(untouched)
    assert not strategy.frozen()
    assert not strategy.constrained()


def test_the_target_is_the_level_asked_for() -> None:
    assert pruning(small(), level=0.37).target == 0.37
