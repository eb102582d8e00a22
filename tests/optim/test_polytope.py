import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from esacl.optim.polytope import KSparsePolytope
from tests.reference import polytope as naive

SMALL = [(n, k) for n in range(1, 7) for k in range(1, n + 1)]
FEW = st.lists(st.integers(-2, 2).map(float), min_size=1, max_size=12)
REAL = st.lists(st.floats(-100, 100, allow_subnormal=False), min_size=1, max_size=12)
RADIUS = st.floats(0.01, 50)


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("n", "k"), SMALL)
def test_no_vertex_descends_more_than_the_oracles(n: int, k: int) -> None:
    polytope = KSparsePolytope(k, 1.5)
    corners = naive.vertices(n, k, 1.5)
    for seed in range(5):
        for direction in (draw(n, seed=seed), draw(n, seed=seed).round()):
            vertex = polytope.lmo(direction)
            best = min(naive.dot(direction.tolist(), corner) for corner in corners)
            assert float(direction @ vertex) == pytest.approx(best, abs=1e-12)
            if bool(direction.all()):
                assert vertex.tolist() in corners


@pytest.mark.parametrize("seed", range(12))
def test_the_oracle_solves_the_linear_programme_over_both_norm_balls(seed: int) -> None:
    n = 5 + 4 * seed
    k, radius = 1 + seed, 0.3 + seed
    direction = draw(n, seed=seed)
    cost = np.concatenate([direction.numpy(), -direction.numpy()])  # x = plus - minus, both from 0 to radius
    solved = linprog(cost, A_ub=np.ones((1, 2 * n)), b_ub=[k * radius], bounds=(0, radius))
    assert solved.success
    assert float(direction @ KSparsePolytope(k, radius).lmo(direction)) == pytest.approx(solved.fun, rel=1e-9)


@settings(deadline=None)
@given(FEW | REAL, st.integers(1, 12), RADIUS)
def test_the_oracle_is_its_naive_twin(direction: list[float], k: int, radius: float) -> None:
    polytope = KSparsePolytope(k, radius)
    vector = torch.tensor(direction, dtype=torch.float64)
    assert polytope.lmo(vector).tolist() == naive.lmo(direction, k, radius)
    places, entries = polytope.corner(vector)
    assert torch.equal(torch.zeros_like(vector).index_copy(0, places, entries), polytope.lmo(vector))
    assert bool((entries != 0).all())
    assert vector.tolist() == direction


@settings(deadline=None)
@given(st.lists(st.sampled_from([-2.0, -1.0, 1.0, 2.0]), min_size=1, max_size=30), st.integers(1, 30))
def test_a_vertex_has_exactly_k_entries_whatever_the_ties(direction: list[float], k: int) -> None:
    vertex = KSparsePolytope(k, 0.7).lmo(torch.tensor(direction))
    assert int(vertex.count_nonzero()) == min(k, len(direction))
    assert vertex.abs().unique().tolist() in ([0.0, pytest.approx(0.7)], [pytest.approx(0.7)])


def test_infinite_directions_have_a_vertex_and_what_is_not_a_number_stays_so() -> None:
    polytope = KSparsePolytope(2, 0.5)
    assert polytope.lmo(torch.tensor([math.inf, 1.0, -math.inf])).tolist() == [-0.5, 0.0, 0.5]
    vertex = polytope.lmo(torch.tensor([math.nan, 1.0, 2.0]))
    assert vertex[0].isnan()
    assert vertex[1:].tolist() == [0.0, -0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_vertex_has_the_type_and_layout_of_its_direction(dtype: torch.dtype) -> None:
    direction = draw(2, 4, 3, 3, seed=1).to(dtype).contiguous(memory_format=torch.channels_last)
    vertex = KSparsePolytope(7, 0.5).lmo(direction)
    assert vertex.dtype == dtype
    assert vertex.shape == direction.shape
    assert vertex.is_contiguous(memory_format=torch.channels_last)
    assert int(vertex.count_nonzero()) == 7


@settings(deadline=None)
@given(st.integers(0, 1000), st.sampled_from(SMALL), RADIUS)
def test_convex_combinations_of_vertices_are_inside(seed: int, size: tuple[int, int], radius: float) -> None:
    n, k = size
    corners = torch.tensor(naive.vertices(n, k, radius))
    shares = draw(len(corners), seed=seed).float().softmax(0)
    point = shares @ corners
    polytope = KSparsePolytope(k, radius)
    assert polytope.contains(point)
    assert all(polytope.contains(corner) for corner in corners[:20])
    assert polytope.contains(torch.zeros(n))


@pytest.mark.parametrize(("n", "k"), [(n, k) for n, k in SMALL if n <= 4])
def test_inside_is_what_is_a_convex_combination_of_vertices(n: int, k: int) -> None:
    corners = np.array(naive.vertices(n, k, 1.0))
    mixing = np.vstack([corners.T, np.ones(len(corners))])
    seen = set()
    for seed in range(6):
        for size in (0.5, 1.0, 1.4):
            point = (draw(n, seed=seed) * size).clamp(-1.2, 1.2)
            polytope = KSparsePolytope(k, 1.0)
            if abs(float(polytope.gauge(point)) - 1) < 1e-3:
                continue
            solved = linprog(np.zeros(len(corners)), A_eq=mixing, b_eq=[*point.tolist(), 1.0])
            assert polytope.contains(point) == solved.success
            seen.add(solved.success)
    assert seen == {True, False}


@settings(deadline=None)
@given(REAL, st.integers(1, 12), RADIUS)
def test_gauge_and_pull_are_their_naive_twins(x: list[float], k: int, radius: float) -> None:
    polytope = KSparsePolytope(k, radius)
    point = torch.tensor(x, dtype=torch.float64)
    assert float(polytope.gauge(point)) == pytest.approx(naive.gauge(x, k, radius), rel=1e-9)
    assert polytope.pull_inside(point).tolist() == pytest.approx(naive.pull_inside(x, k, radius), rel=1e-9)


@settings(deadline=None)
@given(REAL, st.integers(1, 12), RADIUS)
def test_points_with_a_gauge_above_one_are_outside_and_others_inside(x: list[float], k: int, radius: float) -> None:
    polytope = KSparsePolytope(k, radius)
    point = torch.tensor(x, dtype=torch.float64)
    gauge = float(polytope.gauge(point))
    assert polytope.contains(point) == (gauge <= 1 + 1e-5)
    if gauge > 0:
        assert polytope.contains(point * 0.99 / gauge)
        assert not polytope.contains(point * 1.01 / gauge)


@settings(deadline=None)
@given(REAL, st.integers(1, 12), RADIUS)
def test_pulling_leaves_points_inside_bit_for_bit_and_puts_others_on_the_boundary(
    x: list[float], k: int, radius: float
) -> None:
    polytope = KSparsePolytope(k, radius)
    for dtype in (torch.float32, torch.float64):
        point = torch.tensor(x, dtype=dtype)
        pulled = polytope.pull_inside(point)
        if float(polytope.gauge(point)) <= 1:
            assert torch.equal(pulled, point)
        else:
            assert float(polytope.gauge(pulled)) == pytest.approx(1, rel=1e-5)
            assert polytope.contains(pulled)
            torch.testing.assert_close(pulled / pulled.norm(), point / point.norm())
        assert torch.equal(polytope.pull_inside(torch.zeros_like(point)), torch.zeros_like(point))


@pytest.mark.parametrize(("size", "radius"), list(product([(n, k) for n, k in SMALL if n <= 4], [0.5, 3.0])))
def test_the_diameter_is_the_largest_distance_of_two_vertices(size: tuple[int, int], radius: float) -> None:
    n, k = size
    assert KSparsePolytope(k, radius).diameter == pytest.approx(naive.diameter(n, k, radius))
