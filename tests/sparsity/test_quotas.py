from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esacl.errors import ConfigError
from esacl.sparsity.quotas import QUOTAS, kept_after

quotas = st.sampled_from(QUOTAS)
budgets = st.integers(0, 20_000_000)
numbers = st.integers(1, 60)
ratios = st.floats(0.001, 0.999)


@given(quotas, budgets, numbers, ratios)
def test_what_is_kept_only_grows_and_ends_at_the_budget(quota: str, budget: int, tasks: int, ratio: float) -> None:
    kept = [kept_after(quota, budget, task, tasks, ratio) for task in range(tasks)]
    assert kept == sorted(kept)
    assert kept[0] >= 0
    assert kept[-1] == budget


@given(budgets, numbers)
def test_even_tasks_differ_by_one_weight_at_most(budget: int, tasks: int) -> None:
    kept = [0, *(kept_after("even", budget, task, tasks) for task in range(tasks))]
    shares = [after - before for before, after in pairwise(kept)]
    assert max(shares) - min(shares) <= 1


@given(budgets, st.integers(2, 60), ratios)
def test_a_geometric_task_takes_its_share_of_what_is_left(budget: int, tasks: int, ratio: float) -> None:
    left = float(budget)
    for task in range(tasks - 1):
        left -= ratio * left
        assert kept_after("geometric", budget, task, tasks, ratio) == pytest.approx(budget - left, abs=0.5 + 1e-6)


@given(budgets, numbers, st.floats(0.01, 0.99))
def test_the_first_quota_shares_what_the_first_task_leaves_evenly(budget: int, tasks: int, ratio: float) -> None:
    for task in range(tasks - 1):
        rest = budget * (1 - ratio) * task / (tasks - 1)
        assert kept_after("first", budget, task, tasks, ratio) == pytest.approx(budget * ratio + rest, abs=0.5 + 1e-6)


@given(budgets, numbers, st.integers(0, 100))
def test_the_literal_quota_gives_everything_to_the_first_task(budget: int, tasks: int, task: int) -> None:
    assert kept_after("literal", budget, task, tasks) == budget


def test_a_quota_that_nobody_knows_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown quota 'evn'\. Did you mean 'even'\? Allowed: even, first, geometric, l"
    ):
        kept_after("evn", 1, 0, 1)
