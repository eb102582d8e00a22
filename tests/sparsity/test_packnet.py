from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from esacl.nets import Network
from esacl.rng import generator
from esacl.sparsity.base import Phase
from esacl.sparsity.packnet import FREE, Packnet, PacknetOptions
from esacl.training.events import EpochDone, StepDone, TaskDone
from tests.builders import context, finish, network, same, stream, weights
from tests.reference import packnet as naive
from tests.sparsity.isolated_runs import isolated

FIT = Phase("fit", 1)
TASK = stream(tasks=1, classes_per_task=6).tasks[0]


def packing(net: Network, tasks: int = 3, **options: Any) -> Packnet:
    """The strategy, attached to a network."""
    made = Packnet(PacknetOptions(**options), context(tasks=tasks))
    made.attach(net)
    return made


def learn(net: Network, made: Packnet, index: int, decimals: int | None = None) -> dict[str, torch.Tensor]:
    """One task without training: free weights take random values; what they were before pruning is returned."""
    task = replace(TASK, index=index)
    made.begin_task(net, task)
    with torch.no_grad():
        for name, owner in made.owner.items():
            new = torch.randn(owner.shape, generator=generator(index, name))
            new = new if decimals is None else new.round(decimals=decimals)
            net.stored[name].copy_(torch.where(owner == FREE, new, net.stored[name]))
    before = {name: net.stored[name].detach().clone() for name in made.owner}
    made.end_phase(net, task, FIT)
    made.end_phase(net, task, Phase("retrain", 1))
    made.end_task(net, task, None)
    return before


@pytest.mark.parametrize("decimals", [None, 1])
def test_owners_and_answers_agree_with_the_naive_twin_after_every_task(decimals: int | None) -> None:
    net = network("mlp", 8)
    made = packing(net, tasks=4, level=0.3)
    owners = {name: [FREE] * owner.numel() for name, owner in made.owner.items()}
    for index in range(4):
        before = learn(net, made, index, decimals)
        for name, owner in owners.items():
            quota = naive.even(len(owner), 0.3, owner, index, 4)
            owners[name] = naive.own(before[name], owner, index, quota)
            assert made.owner[name].flatten().tolist() == owners[name]
            for task in range(index + 1):
                seen = made.view(net.stored, task)[name]
                assert seen.flatten().tolist() == naive.answer(before[name], owners[name], task)


@given(st.floats(0, 0.9999), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_all_tasks_together_keep_exactly_the_budget_of_every_layer(level: float, tasks: int, width: int) -> None:
    net = network("mlp", width, shape=(1, 3, 3))
    made = packing(net, tasks, level=level)
    for index in range(tasks):
        learn(net, made, index)
    for owner in made.owner.values():
        counts = [int((owner == index + 1).sum()) for index in range(tasks)]
        assert sum(counts) == round((1 - level) * owner.numel())
        assert max(counts) - min(counts) <= 1
    assert made.target == level


@given(st.floats(0.01, 0.9999), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_with_the_authors_quota_each_task_prunes_a_share_of_what_is_free(share: float, tasks: int) -> None:
    net = network("mlp", 6)
    made = packing(net, tasks, quota="share", share=share)
    free = {name: owner.numel() for name, owner in made.owner.items()}
    for index in range(tasks):
        learn(net, made, index)
        free = {name: round(share * count) for name, count in free.items()}
        assert {name: int((owner == FREE).sum()) for name, owner in made.owner.items()} == free
    assert made.target == share**tasks


def test_a_zero_takes_no_place_and_what_a_task_leaves_over_goes_to_the_next() -> None:
    net = network("mlp", 8)
    made = packing(net, tasks=2, level=0.5)
    name = "backbone.second.weight"
    made.begin_task(net, TASK)
    with torch.no_grad():
        net.stored[name].zero_()[0, :3] = 1e-30
    made.end_phase(net, TASK, FIT)
    made.end_task(net, TASK, None)
    assert int((made.owner[name] == 1).sum()) == 3
    learn(net, made, 1)
    assert int((made.owner[name] == 2).sum()) == 32 - 3


@pytest.mark.parametrize(("retrain", "epochs", "expected"), [(0.5, 10, 5), (0.01, 10, 1), (2.0, 3, 6), (0.5, 1, 1)])
def test_a_task_is_trained_then_retrained(retrain: float, epochs: int, expected: int) -> None:
    made = Packnet(PacknetOptions(retrain=retrain), context(epochs=epochs))
    assert [made.next_phase(0, done) for done in range(3)] == [Phase("fit", epochs), Phase("retrain", expected), None]
    assert made.planned_epochs() == epochs + expected


def test_retraining_moves_the_task_s_own_weights_only_and_everything_free_is_zero() -> None:
    training = isolated("packnet", "cnn", epochs=4)
    made = training.parts.sparsity
    assert isinstance(made, Packnet)
    before = weights(training.net)
    checked = 0
    for event in training.run():
        now = weights(training.net)
        if isinstance(event, StepDone) and event.phase == "retrain":
            for name, owner in made.owner.items():
                assert bool((now[name][owner == FREE] == 0).all())
                if checked:
                    own = owner == event.task + 1
                    assert not torch.equal(now[name][own], before[name][own])
                    earlier = (owner != FREE) & ~own
                    assert torch.equal(now[name][earlier], before[name][earlier])
            checked += 1
        before = now
    assert checked == 3 * 2 * 3  # tasks, epochs, steps


def test_what_was_pruned_and_retrained_is_credited_and_training_before_it_is_not() -> None:
    training = isolated("packnet", level=0.4)
    shares: dict[str, set[float]] = {"fit": set(), "retrain": set()}
    for event in training.run():
        if isinstance(event, EpochDone):
            shares[event.phase].add(training.net.meter.sparse / training.net.meter.dense)
    assert shares["fit"] == {1.0}
    assert len(shares["retrain"]) == 3
    assert max(shares["retrain"]) < 1
    assert not training.unpruned, "pruning is not the end: what it cost is retrained before anyone looks"


@pytest.mark.parametrize("expand", ["zero", "kaiming"])
def test_free_weights_start_anew_and_owned_ones_stay(expand: str) -> None:
    net = network("cnn", 8)
    made = packing(net, expand=expand)
    first = weights(net)
    made.begin_task(net, TASK)
    assert same(weights(net), first), "the first task starts with the weights of the network"
    made.end_phase(net, TASK, FIT)
    made.end_task(net, TASK, None)
    before = weights(net)
    made.begin_task(net, replace(TASK, index=1))
    for name, owner in made.owner.items():
        now = net.stored[name].detach()
        assert torch.equal(now[owner != FREE], before[name][owner != FREE])
        assert bool((now[owner == FREE] == 0).all()) == (expand == "zero")


def test_many_tasks_have_owners_of_their_own() -> None:
    net = network("mlp", 8)
    made = packing(net, tasks=300, level=0)
    assert {owner.dtype for owner in made.owner.values()} == {torch.int16}
    made.done = 299
    made.end_phase(net, TASK, FIT)
    assert int(made.owner["backbone.first.weight"].max()) == 300


def test_a_trained_run_keeps_half_and_owners_tell_whose() -> None:
    training = isolated("packnet")
    for event in training.run():
        if isinstance(event, TaskDone):
            made = training.parts.sparsity
            assert isinstance(made, Packnet)
            seen = {int(value) for owner in made.owner.values() for value in owner.unique()}
            assert seen == set(range(event.task + 2))
    assert finish(training).parts.sparsity.density(training.net) == dict.fromkeys(training.net.partition.prunable, 0.5)
