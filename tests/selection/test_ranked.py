import random
from copy import deepcopy
from math import inf, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from esacl.objectives.base import Objective
from esacl.options import NoOptions
from esacl.selection.base import KeepAll
from tests.builders import batch, context, network, same, weights
from tests.reference.selection import LastSeen, hardest
from tests.selection.ranked_tools import EVERY_RULE, gradient_rule, of_size, rows_of, selector, trace_of


@given(st.integers(1, 40), st.floats(0.01, 0.99), st.data())
def test_the_share_that_is_kept_is_that_of_the_largest_losses(size: int, keep: float, data: st.DataObject) -> None:
    losses = data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))  # small: with ties
    part, fit = selector(keep, rule="loss", ranking="pass"), torch.tensor(losses).float()
    found = rows_of(part.update_set(of_size(size), fit))
    assert found == hardest(fit.tolist(), keep)
    assert found == rows_of(part.support_set(of_size(size), fit))
    assert len(found) == max(1, round(keep * size))


@given(st.integers(1, 40), st.floats(0.01, 0.99), st.integers(0, 9))
@settings(max_examples=50)
def test_the_share_that_is_kept_at_random_is_as_large(size: int, keep: float, seed: int) -> None:
    found = rows_of(selector(keep, seed).update_set(of_size(size), None))
    assert len(set(found)) == len(found) == max(1, round(keep * size))
    assert found == sorted(found)
    assert set(found) <= set(range(size))


@pytest.mark.parametrize(("rule", "ranking"), EVERY_RULE)
@pytest.mark.parametrize("ascends", [False, True])
def test_keeping_everything_is_the_same_as_no_selection_and_costs_the_same(
    rule: str, ranking: str, ascends: bool
) -> None:
    part = selector(1.0, rule=rule, ranking=ranking)
    assert part.ranking == "none"
    results = []
    for selection in (part, KeepAll(NoOptions(), context())):
        net, each = network("cnn", 8), gradient_rule(ascends)
        for step in range(2):
            trace = each.compute_gradients(net, Objective(NoOptions(), context()), batch(start=step), selection)
            selection.observe(trace)
            assert trace.updated == 8
        results.append((net.gradients(), weights(net), net.meter.state_dict()))
    mine, theirs = results
    assert same(mine[0], theirs[0])
    assert same(mine[1], theirs[1])
    assert mine[2] == theirs[2]


@pytest.mark.parametrize(("rule", "ranking"), EVERY_RULE)
@pytest.mark.parametrize(("support", "redundant"), [(True, False), (False, True), (False, False)])
def test_the_support_set_and_the_update_set_are_switched_separately(
    support: bool, redundant: bool, rule: str, ranking: str
) -> None:
    part = selector(rule=rule, ranking=ranking, support=support, redundant=redundant)
    fit = torch.arange(8).float()
    found = [part.support_set(batch(), fit), part.update_set(batch(), fit)]
    assert [rows is not None for rows in found] == [support, redundant]
    assert all(len(rows) == 4 for rows in found if rows is not None)
    if not support and not redundant:
        assert part.ranking == "none", "nobody would use the losses"


def test_at_random_the_ascent_and_the_descent_of_a_step_have_the_same_rows_and_other_steps_and_tasks_others() -> None:
    seen = []
    for tasks in (1, 2, 3):
        part = selector(tasks=tasks)
        for _ in range(5):
            chosen = rows_of(part.support_set(of_size(24), None))
            assert chosen == rows_of(part.update_set(of_size(24), None))
            seen.append(tuple(chosen))
            part.observe(trace_of(of_size(24), torch.zeros(24)))
    assert len(set(seen)) == 15


def test_at_random_every_row_is_chosen_as_often_as_any_other() -> None:
    steps, size, keep = 600, 20, 0.3
    part, counts = selector(keep), torch.zeros(size)
    for _ in range(steps):
        counts[part.update_set(of_size(size), None)] += 1
        part.observe(trace_of(of_size(size), torch.zeros(size)))
    variance = steps * keep * (1 - keep)
    assert counts.sum() == steps * keep * size
    assert (counts - steps * keep).abs().max() < 5 * sqrt(variance)
    statistic = ((counts - steps * keep) ** 2 / variance).sum().item()
    assert size - 6 * sqrt(2 * size) < statistic < size + 6 * sqrt(2 * size)


def test_at_random_the_rows_depend_on_the_seed_and_on_no_global_generator() -> None:
    found = []
    for poison, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(poison), np.random.seed(poison), random.seed(poison)  # noqa: NPY002
        before = torch.get_rng_state()
        found.append(rows_of(selector(seed=seed).update_set(of_size(24), None)))
        assert torch.equal(torch.get_rng_state(), before)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("rule", ["random", "loss"])
def test_the_random_rule_and_stale_losses_need_no_fresh_ones(rule: str) -> None:
    assert selector(rule=rule, ranking="stale").ranking == "none"
    for ranking in ("pass", "reuse"):
        assert selector(rule=rule, ranking=ranking).ranking == (ranking if rule == "loss" else "none")


def test_stale_losses_are_those_last_seen_of_each_example_and_the_never_seen_come_first() -> None:
    part, naive = selector(0.4, rule="loss", ranking="stale", examples=30), LastSeen()
    draw = torch.Generator().manual_seed(0)
    never_seen = 0
    for _ in range(40):
        examples = of_size(30).take(torch.randperm(30, generator=draw)[:10])
        index = examples.index.tolist()
        never_seen += len(set(index) - naive.losses.keys()) > 0
        chosen = part.update_set(examples, None)
        assert rows_of(chosen) == naive.hardest(index, 0.4)
        assert chosen is not None
        losses = torch.rand(len(chosen), generator=draw)
        part.observe(trace_of(examples, losses, chosen))
        naive.see(examples.index[chosen].tolist(), losses.tolist())
    assert 3 < never_seen < 37, "both kinds of steps were met"
    part.begin_task(7)
    assert part.losses.tolist() == [inf] * 7


def test_losses_of_a_whole_batch_are_remembered_by_example() -> None:
    part, examples = selector(rule="loss", ranking="stale"), batch()
    part.observe(trace_of(examples, torch.arange(8).float()))
    assert part.losses[examples.index].tolist() == list(range(8))
    assert part.losses.isinf().sum() == 16


@pytest.mark.parametrize(("rule", "ranking"), EVERY_RULE)
def test_nothing_is_left_out_in_the_first_epochs_of_each_task(rule: str, ranking: str) -> None:
    part, fit = selector(rule=rule, ranking=ranking, warmup=2), torch.arange(8).float()
    for _ in range(2):
        for epoch in range(4):
            assert part.epoch_subset(24, epoch) is None
            assert (part.update_set(batch(), fit) is None) == (part.support_set(batch(), fit) is None) == (epoch < 2)
            assert (part.ranking == "none") == (epoch < 2 or ranking == "stale")
        part.begin_task(24)


@pytest.mark.parametrize(("rule", "ranking"), EVERY_RULE)
def test_a_selection_continues_from_a_saved_state_with_the_same_choices(rule: str, ranking: str) -> None:
    part, resumed = (selector(rule=rule, ranking=ranking, warmup=1, tasks=tasks) for tasks in (2, 1))
    part.epoch_subset(24, 1)
    for step in range(4):
        part.observe(trace_of(batch(start=step), torch.arange(8) * 7.0 % 5))
    resumed.observe(trace_of(batch(start=9), torch.ones(8)))
    state = deepcopy(part.state_dict())
    resumed.load_state_dict(state)
    for step in range(4, 8):
        fit = torch.arange(8) * 3.0 % 7 if ranking != "stale" else None
        chosen = [rows_of(each.update_set(batch(start=step), fit)) for each in (part, resumed)]
        assert chosen[0] == chosen[1]
        assert part.ranking == resumed.ranking
        for each in (part, resumed):
            each.observe(trace_of(batch(start=step), torch.arange(8) * 5.0 % 6))
    assert not torch.equal(part.losses, state["losses"]) or rule == "random", "the saved state is a copy"
