import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from esacl.metrics.seeds import CHANCE, accuracy_interval, at_chance, fell, paired_difference, student_t
from tests.reference import seeds as naive


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 29])
def test_student_s_quantile_is_that_of_the_integral(freedom: int) -> None:
    assert student_t(freedom) == pytest.approx(naive.t_quantile(freedom, 0.95), rel=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6))
def test_an_interval_is_that_of_plain_sums(values: list[float]) -> None:
    found = paired_difference(values)
    mean, half = naive.interval(values)
    assert found is not None
    assert (found.mean, found.half) == pytest.approx((mean, half), rel=1e-4, abs=1e-9)


def test_only_an_interval_without_0_supports_a_difference() -> None:
    clear, unclear = paired_difference([0.02, 0.03, 0.025]), paired_difference([0.01, 0.09, -0.01])
    assert clear is not None
    assert unclear is not None
    assert clear.supported
    assert clear.low is not None
    assert clear.low > 0
    assert not unclear.supported


def test_one_pair_has_no_interval_and_supports_nothing() -> None:
    found = paired_difference([0.5])
    assert found is not None
    assert (found.half, found.low, found.high, found.supported) == (None, None, None, False)


@pytest.mark.parametrize(("classes", "examples"), [(2, 40), (5, 30), (10, 100)])
def test_chance_ends_where_guessing_is_right_so_often_in_1_of_100(classes: int, examples: int) -> None:
    for right in range(examples + 1):
        expected = naive.chance_of_as_many(right, classes, examples) > CHANCE
        assert at_chance(right / examples, classes, examples) == expected


@pytest.mark.parametrize(("right", "examples"), [(0, 5), (1, 1), (45, 50), (500, 1000)])
def test_the_interval_of_an_accuracy_is_that_of_scipy(right: int, examples: int) -> None:
    found = binomtest(right, examples).proportion_ci(method="wilson")
    assert accuracy_interval(right, examples) == pytest.approx((found.low, found.high), abs=1e-9)


def test_a_fall_is_told_where_a_fair_coin_rarely_loses_as_many() -> None:
    for lost in range(12):
        for won in range(12):
            assert fell(lost, won) == (lost > won and naive.chance_of_as_many_lost(lost, won) < 0.05)
