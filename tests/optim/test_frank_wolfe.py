from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from esacl.optim.frank_wolfe import FrankWolfe
from esacl.optim.polytope import KSparsePolytope
from tests.optim.frank_wolfe_tools import (
    MODES,
    RESCALES,
    SCALES,
    SCOPES,
    SHAPES,
    generator,
    give_gradients,
    masks,
    parameters,
    same,
    values,
)
from tests.reference import polytope as naive
from tests.reference.frank_wolfe import NaiveFrankWolfe


@pytest.mark.parametrize("frozen", [0.0, 0.4], ids=["free", "frozen"])
@pytest.mark.parametrize(
    ("scope", "mode", "rescale", "scale", "pull"), list(product(SCOPES, MODES, RESCALES, SCALES, (True, False)))
)
def test_the_optimiser_is_its_naive_twin(
    scope: str, mode: str, rescale: str, scale: str, pull: bool, frozen: float
) -> None:
    params = parameters(SHAPES, dtype=torch.float64)
    fixed = masks(params, frozen)
    options: dict[str, Any] = {
        "k": 0.2,
        "radius": 0.8,
        "radius_scale": scale,
        "scope": scope,
        "momentum": 0.7,
        "momentum_mode": mode,
        "rescale": rescale,
        "pull": pull,
    }
    optimizer = FrankWolfe(params, lr=0.1, frozen=fixed, **options)
    twin = NaiveFrankWolfe(
        [param.flatten().tolist() for param in params], [fixed[param].flatten().tolist() for param in params], **options
    )
    draw = generator(2)
    for step in range(6):
        give_gradients(params, draw)
        lr = 0.3 / (1 + step)
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        twin.step([param.grad.flatten().tolist() for param in params if param.grad is not None], lr)
        for param, layer in zip(params, twin.layers):
            assert param.flatten().tolist() == pytest.approx(layer, rel=1e-9, abs=1e-12)
    found = optimizer.polytopes(optimizer.param_groups[0])
    assert [found[param].k for param in params] == (twin.counts if scope == "layer" else twin.counts * 3)
    radii = twin.radii if scope == "layer" else twin.radii * 3
    assert [found[param].radius for param in params] == pytest.approx(radii)


@settings(deadline=None)
@given(
    shapes=st.lists(st.sampled_from([(1,), (5,), (3, 4), (2, 2, 3, 3)]), min_size=1, max_size=3),
    frozen=st.sampled_from([0.0, 0.5, 0.9]),
    size=st.sampled_from([1e-4, 1.0, 1e4]),
    seed=st.integers(0, 1000),
    options=st.fixed_dictionaries(
        {
            "lr": st.floats(0, 2),
            "k": st.floats(0.001, 1),
            "radius": st.floats(0.001, 100),
            "radius_scale": st.sampled_from(SCALES),
            "scope": st.sampled_from(SCOPES),
            "momentum": st.floats(0, 0.99),
            "momentum_mode": st.sampled_from(MODES),
            "rescale": st.sampled_from(RESCALES),
        }
    ),
)
def test_every_iterate_is_inside_its_polytope_and_frozen_coordinates_never_move(
    shapes: list[tuple[int, ...]], frozen: float, size: float, seed: int, options: dict[str, Any]
) -> None:
    params = parameters(shapes, seed)
    fixed = masks(params, frozen, seed)
    before = values(params)
    optimizer = FrankWolfe(params, frozen=fixed, **options)
    draw = generator(seed)
    for _ in range(8):
        give_gradients(params, draw, size)
        optimizer.step()
        for param, start in zip(params, before):
            assert torch.equal(param[fixed[param]], start[fixed[param]])
        free: dict[Tensor, Tensor] = {
            param: param.detach().masked_fill(fixed[param], 0.0).flatten() for param in params
        }
        if options["scope"] == "global":
            free = dict.fromkeys(params, torch.cat(list(free.values())))
        for param, polytope in optimizer.polytopes(optimizer.param_groups[0]).items():
            assert polytope.contains(free[param])


@settings(deadline=None)
@given(
    st.integers(0, 1000),
    st.floats(0, 0.1),
    st.sampled_from([0.0, 0.9]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([0.3, 1.0]),
)
def test_frozen_coordinates_never_move_by_sgd_either(
    seed: int, lr: float, momentum: float, decay: float, share: float
) -> None:
    params = parameters(SHAPES, seed)
    fixed, before = masks(params, share, seed), values(params)
    options = {"lr": lr, "momentum": momentum, "weight_decay": decay}
    optimizer = FrankWolfe(params, polytope=False, frozen=fixed, **options)
    plain = [nn.Parameter(value.clone()) for value in before]
    sgd = torch.optim.SGD(plain, **options)
    draw = generator(seed)
    for _ in range(4):
        give_gradients(params, draw)
        for param, other in zip(params, plain):
            assert param.grad is not None
            other.grad = param.grad.clone()
        optimizer.step()
        sgd.step()
    for param, start, other in zip(params, before, plain):
        mask = fixed[param]
        assert torch.equal(param[mask], start[mask])
        torch.testing.assert_close(param[~mask], other[~mask])


@settings(deadline=None)
@given(st.integers(0, 1000), st.floats(0, 1), st.floats(0.05, 0.9), st.sampled_from(MODES))
def test_every_weight_that_is_not_chosen_shrinks_by_the_step(seed: int, eta: float, k: float, mode: str) -> None:
    (weight,) = parameters([(6, 7)], seed, torch.float64)
    optimizer = FrankWolfe([weight], lr=0.0, k=k, momentum_mode=mode)
    draw = generator(seed)
    give_gradients([weight], draw)
    optimizer.step()  # a step of 0 only pulls
    start = weight.detach().clone()
    optimizer.param_groups[0]["lr"] = eta
    give_gradients([weight], draw)
    optimizer.step()
    momentum = optimizer.state[weight]["momentum_buffer"].flatten().tolist()
    polytope = optimizer.polytopes(optimizer.param_groups[0])[weight]
    vertex = torch.tensor(naive.lmo(momentum, polytope.k, polytope.radius), dtype=torch.float64).view(6, 7)
    unchosen = vertex == 0
    assert int((~unchosen).sum()) == polytope.k
    torch.testing.assert_close(weight[unchosen], (1 - eta) * start[unchosen], rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(weight.detach(), start + eta * (vertex - start), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pull", [True, False])
def test_a_step_of_nothing_moves_nothing_but_the_pull_to_the_boundary(pull: bool) -> None:
    weights = parameters(SHAPES)
    before = values(weights)
    optimizer = FrankWolfe(weights, lr=0.0, k=0.2, radius=0.1, radius_scale="absolute", pull=pull)
    give_gradients(weights, generator(1))
    optimizer.step()
    polytopes = optimizer.polytopes(optimizer.param_groups[0])
    for param, start in zip(weights, before):
        expected = polytopes[param].pull_inside(start) if pull else start
        assert torch.equal(param.detach(), expected)
        assert polytopes[param].contains(param.detach()) == pull


@pytest.mark.parametrize("rescale", RESCALES)
def test_no_step_goes_beyond_the_vertex(rescale: str) -> None:
    (weight,) = parameters([(20,)])
    optimizer = FrankWolfe([weight], lr=1e9, k=0.25, rescale=rescale)
    weight.grad = torch.randn(20, generator=generator(1))
    optimizer.step()
    polytope = optimizer.polytopes(optimizer.param_groups[0])[weight]
    assert torch.equal(weight.detach(), polytope.lmo(weight.grad))


def test_steps_rescaled_by_the_gradient_are_as_long_as_it_and_by_the_diameter_as_its_share() -> None:
    for rescale in ("gradient", "diameter"):
        (weight,) = parameters([(30,)], dtype=torch.float64)
        options = {"radius": 5.0, "radius_scale": "absolute", "momentum": 0.0, "rescale": rescale}
        optimizer = FrankWolfe([weight], lr=0.01, k=0.3, **options)  # type: ignore[arg-type]
        weight.grad = torch.randn(30, generator=generator(1), dtype=torch.float64)
        start = weight.detach().clone()
        polytope = KSparsePolytope(9, 5.0)
        assert polytope.contains(start)
        optimizer.step()
        moved = weight.detach() - start
        way = polytope.lmo(weight.grad) - start
        length = weight.grad.norm() if rescale == "gradient" else way.norm() / polytope.diameter
        torch.testing.assert_close(moved, 0.01 * length * way / way.norm())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_a_group_without_polytope_is_torchs_sgd(momentum: float, decay: float) -> None:
    mine, theirs = parameters(SHAPES), parameters(SHAPES)
    options = {"lr": 0.1, "momentum": momentum, "weight_decay": decay}
    optimizers = (FrankWolfe(mine, polytope=False, **options), torch.optim.SGD(theirs, **options))
    draws = (generator(1), generator(1))
    for _ in range(6):
        for params, optimizer, draw in zip((mine, theirs), optimizers, draws):
            give_gradients(params, draw)
            optimizer.step()
    assert not same(values(mine), values(parameters(SHAPES)))
    for param, other in zip(mine, theirs):
        torch.testing.assert_close(param, other)
