import pytest
from hypothesis import given
from hypothesis import strategies as st

from esacl.metrics.accuracy import average_accuracy, backward_transfer, forgetting, forward_transfer
from tests.reference import accuracy as naive

SHARES = st.floats(0, 1)


@st.composite
def matrices(draw: st.DrawFn) -> list[list[float]]:
    tasks = draw(st.integers(2, 7))
    return draw(st.lists(st.lists(SHARES, min_size=tasks, max_size=tasks), min_size=tasks, max_size=tasks))


@given(matrices(), st.lists(SHARES, min_size=7, max_size=7))
def test_every_figure_is_that_of_a_naive_loop(matrix: list[list[float]], untrained: list[float]) -> None:
    start = untrained[: len(matrix)]
    assert average_accuracy(matrix) == pytest.approx(naive.average(matrix), abs=1e-12)
    assert forgetting(matrix) == pytest.approx(naive.forgetting(matrix), abs=1e-12)
    assert backward_transfer(matrix) == pytest.approx(naive.backward_transfer(matrix), abs=1e-12)
    assert forward_transfer(matrix, start) == pytest.approx(naive.forward_transfer(matrix, start), abs=1e-12)


@given(matrices())
def test_forgetting_is_never_less_than_the_backward_loss(matrix: list[list[float]]) -> None:
    lost, transferred = forgetting(matrix), backward_transfer(matrix)
    assert lost is not None
    assert transferred is not None
    assert lost >= -transferred - 1e-12


@given(matrices())
def test_forgetting_ignores_what_a_task_scored_before_it_was_learnt(matrix: list[list[float]]) -> None:
    lucky = [[1.0 if task > stage else value for task, value in enumerate(row)] for stage, row in enumerate(matrix)]
    assert forgetting(lucky) == pytest.approx(forgetting(matrix), abs=1e-12)


def test_a_worked_example() -> None:
    matrix = [[0.9, 0.1, 0.2], [0.5, 0.8, 0.3], [0.6, 0.4, 0.7]]
    assert average_accuracy(matrix) == pytest.approx((0.6 + 0.4 + 0.7) / 3)
    assert forgetting(matrix) == pytest.approx(((0.9 - 0.6) + (0.8 - 0.4)) / 2)
    assert backward_transfer(matrix) == pytest.approx(((0.6 - 0.9) + (0.4 - 0.8)) / 2)
    assert forward_transfer(matrix, [0.5, 0.25, 0.125]) == pytest.approx(((0.1 - 0.25) + (0.3 - 0.125)) / 2)


@pytest.mark.parametrize("matrix", [[[0.9]], [[0.9, 0.8, 0.7]]], ids=["one task", "all tasks at once"])
def test_transfer_and_forgetting_are_undefined_without_a_sequence(matrix: list[list[float]]) -> None:
    assert forgetting(matrix) is None
    assert backward_transfer(matrix) is None
    assert forward_transfer(matrix, [0.5] * 3) is None
    assert average_accuracy(matrix) == pytest.approx(sum(matrix[0]) / len(matrix[0]))
