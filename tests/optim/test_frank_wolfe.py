from collections.abc import Callable, Iterator
from copy import deepcopy
from io import BytesIO
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from esacl.errors import ConfigError
from esacl.optim.frank_wolfe import FrankWolfe
from esacl.optim.polytope import KSparsePolytope
from tests.reference import polytope as naive
from tests.reference.frank_wolfe import NaiveFrankWolfe

SCOPES = ("layer", "global")
MODES = ("average", "accumulate")
RESCALES = ("none", "gradient", "diameter")
SCALES = ("norm", "absolute")
SHAPES = [(4, 5), (7,), (2, 3, 2, 2)]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def parameters(shapes: list[tuple[int, ...]], seed: int = 0, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    draw = generator(seed)
    return [nn.Parameter(torch.randn(*shape, generator=draw, dtype=dtype)) for shape in shapes]


def masks(params: list[nn.Parameter], share: float, seed: int = 1) -> dict[Tensor, Tensor]:
    draw = generator(seed)
    return {param: torch.rand(param.shape, generator=draw) < share for param in params}


def give_gradients(params: list[nn.Parameter], draw: torch.Generator, size: float = 1.0) -> None:
    for param in params:
        param.grad = size * torch.randn(param.shape, generator=draw, dtype=param.dtype)


def values(params: list[nn.Parameter]) -> list[Tensor]:
    return [param.detach().clone() for param in params]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


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


def two_groups(params: list[nn.Parameter], scope: str, frozen: dict[Tensor, Tensor]) -> FrankWolfe:
    groups = [{"params": params[:2], "scope": scope}, {"params": params[2:], "polytope": False, "lr": 0.03}]
    return FrankWolfe(groups, lr=0.1, k=0.2, radius=0.5, weight_decay=0.01, frozen=frozen)


@pytest.mark.parametrize("saved", [True, False], ids=["saved to a file", "handed over"])
@pytest.mark.parametrize("scope", SCOPES)
def test_an_optimiser_continues_from_its_state_to_the_same_bits(scope: str, saved: bool) -> None:
    params = parameters([(5, 6), (8,), (3, 3)])
    through = two_groups(params, scope, masks(params, 0.3))
    draw = generator(2)
    for _ in range(3):
        give_gradients(params, draw)
        through.step()
    state = deepcopy(through.state_dict())
    if saved:
        file = BytesIO()
        torch.save(state, file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
    again = [nn.Parameter(value) for value in values(params)]
    resumed = two_groups(again, scope, masks(again, 0.3))
    resumed.load_state_dict(state)
    for _ in range(3):
        give_gradients(params, draw)
        for param, other in zip(params, again):
            assert param.grad is not None
            other.grad = param.grad.clone()
        through.step()
        resumed.step()
        assert same(values(params), values(again))
    polytopes = [list(of.polytopes(of.param_groups[0]).values()) for of in (through, resumed)]
    assert polytopes[0] == polytopes[1]
    assert len(polytopes[0]) == 2


@pytest.mark.parametrize("scope", SCOPES)
def test_a_copy_of_an_optimiser_and_its_parameters_goes_on_alike(scope: str) -> None:
    params = parameters(SHAPES)
    optimizer = two_groups(params, scope, masks(params, 0.3))
    give_gradients(params, generator(1))
    optimizer.step()
    twins, twin = deepcopy((params, optimizer))
    for of, stepping in ((params, optimizer), (twins, twin)):
        give_gradients(of, generator(2))
        stepping.step()
    assert all(one is not other for one, other in zip(params, twins))
    assert same(values(params), values(twins))


@pytest.mark.parametrize("scope", SCOPES)
def test_radius_and_pull_belong_to_the_first_step_and_are_not_made_again_after_loading(scope: str) -> None:
    params = parameters([(6,), (5,)])
    optimizer = FrankWolfe(params, lr=0.0, k=0.2, radius=0.5, scope=scope)
    give_gradients(params, generator(1))
    optimizer.step()
    state = optimizer.state_dict()
    radii = [polytope.radius for polytope in optimizer.polytopes(optimizer.param_groups[0]).values()]
    again = parameters([(6,), (5,)], seed=9)  # other weights, far outside: a new radius would be another, a pull seen
    with torch.no_grad():
        for param in again:
            param.mul_(100)
    before = values(again)
    resumed = FrankWolfe(again, lr=0.0, k=0.2, radius=0.5, scope=scope)
    resumed.load_state_dict(state)
    give_gradients(again, generator(1))
    resumed.step()
    assert same(values(again), before)
    assert [polytope.radius for polytope in resumed.polytopes(resumed.param_groups[0]).values()] == radii


def test_an_untouched_optimiser_has_no_polytopes_and_asking_for_them_leaves_its_state_alone() -> None:
    optimizer = FrankWolfe(parameters(SHAPES))
    assert optimizer.polytopes(optimizer.param_groups[0]) == {}
    assert optimizer.state_dict()["state"] == {}


def test_groups_have_their_own_settings_and_can_be_added_later() -> None:
    first, second, third = parameters([(10,), (10,), (10,)])
    optimizer = FrankWolfe([{"params": [first], "k": 0.1}, {"params": [second]}], lr=0.2, k=0.5)
    optimizer.add_param_group({"params": third, "k": 1.0, "radius": 4.0, "radius_scale": "absolute"})
    give_gradients([first, second, third], generator(1))
    optimizer.step()
    found = [list(optimizer.polytopes(group).values()) for group in optimizer.param_groups]
    assert [polytope.k for (polytope,) in found] == [1, 5, 10]
    assert found[2][0].radius == 4.0
    assert found[0][0].radius == pytest.approx(2.0 * float(parameters([(10,)])[0].detach().norm()))


@pytest.mark.parametrize("polytope", [True, False])
def test_a_closure_is_called_with_gradients_and_its_loss_is_returned(polytope: bool) -> None:
    (weight,) = parameters([(8,)])
    optimizer = FrankWolfe([weight], lr=0.1, polytope=polytope)
    seen: list[bool] = []

    def closure() -> float:
        seen.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss.item()

    expected = float(weight.detach().square().sum())
    assert optimizer.step(closure) == pytest.approx(expected)
    assert seen == [True]
    assert float(weight.detach().square().sum()) < expected
    assert optimizer.step() is None


@pytest.mark.parametrize("scope", SCOPES)
def test_parameters_without_gradient_stay_and_do_not_count(scope: str) -> None:
    params = parameters([(10,), (90,)])
    before = values(params)
    optimizer = FrankWolfe(params, lr=0.5, k=0.2, radius=0.5, scope=scope)
    optimizer.step()
    assert same(values(params), before)
    params[0].grad = torch.randn(10, generator=generator(1))
    optimizer.step()
    assert not torch.equal(params[0].detach(), before[0])
    assert torch.equal(params[1].detach(), before[1])
    found = optimizer.polytopes(optimizer.param_groups[0])
    assert list(found) == [params[0]]
    assert found[params[0]].k == 2
    assert found[params[0]].radius == pytest.approx(0.5 * float(before[0].norm()) / 2**0.5)
    assert found[params[0]].contains(params[0].detach())


def test_a_parameter_that_joins_a_global_polytope_later_takes_no_momentum_away() -> None:
    params = parameters([(10,), (10,)])
    optimizer = FrankWolfe(params, lr=0.1, k=0.2, scope="global", momentum_mode="accumulate")
    params[0].grad = torch.ones(10)
    optimizer.step()
    for param in params:
        param.grad = torch.ones(10)
    optimizer.step()
    found = optimizer.polytopes(optimizer.param_groups[0])
    assert [optimizer.state[param]["momentum_buffer"][0].item() for param in params] == [2.0, 1.0]
    assert [polytope.k for polytope in found.values()] == [4, 4]
    assert len({polytope.radius for polytope in found.values()}) == 1
    assert found[params[0]].contains(torch.cat(values(params)))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("polytope", [True, False])
def test_a_parameter_that_is_all_frozen_stays_and_the_others_move(polytope: bool, scope: str) -> None:
    params = parameters([(10,), (10,)])
    before = values(params)
    fixed = {params[0]: torch.ones(10, dtype=torch.bool), params[1]: torch.zeros(10, dtype=torch.bool)}
    optimizer = FrankWolfe(params, lr=0.1, k=0.3, scope=scope, polytope=polytope, weight_decay=0.1, frozen=fixed)
    for _ in range(3):
        give_gradients(params, generator(1))
        optimizer.step()
    assert torch.equal(params[0].detach(), before[0])
    assert bool((params[1].detach() != before[1]).all())
    found = optimizer.polytopes(optimizer.param_groups[0])
    assert [polytope.k for polytope in found.values()] == ([3] if polytope else [])


def test_weights_that_are_all_zero_take_the_radius_as_it_is() -> None:
    weight = nn.Parameter(torch.zeros(10))
    optimizer = FrankWolfe([weight], lr=1.0, k=0.1, radius=0.7)
    weight.grad = torch.arange(10.0)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([0.0] * 9 + [-0.7]))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("lr", -0.1, "a number of at least 0"),
        ("lr", float("nan"), "a number of at least 0"),
        ("lr", "fast", "a number of at least 0"),
        ("k", 0, "a number above 0, up to 1"),
        ("k", 1.5, "a number above 0, up to 1"),
        ("radius", 0.0, "a number above 0"),
        ("radius", float("inf"), "a number above 0"),
        ("radius", None, "a number above 0"),
        ("momentum", 1.0, "a number from 0 to 0.9999"),
        ("momentum", -0.5, "a number from 0 to 0.9999"),
        ("weight_decay", -1e-4, "a number of at least 0"),
        ("radius_scale", "relative", "norm or absolute"),
        ("scope", "network", "layer or global"),
        ("momentum_mode", "averaged", "average or accumulate"),
        ("rescale", True, "none or gradient or diameter"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    params = parameters([(3,), (3,)])
    with pytest.raises(ConfigError) as error:
        FrankWolfe(params, **{name: value})
    assert str(error.value) == f"{name} = {value!r} is not allowed. Allowed: {allowed}."
    optimizer = FrankWolfe(params[:1])
    with pytest.raises(ConfigError) as error:
        optimizer.add_param_group({"params": params[1:], name: value})
    assert str(error.value) == f"{name} = {value!r} is not allowed. Allowed: {allowed}."
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10),
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1),
    ],
    ids=["cosine", "step"],
)
def test_torchs_schedulers_set_the_step(schedule: Callable[[FrankWolfe], torch.optim.lr_scheduler.LRScheduler]) -> None:
    params, others = parameters(SHAPES), parameters(SHAPES)
    optimizer, by_hand = FrankWolfe(params, lr=0.3), FrankWolfe(others, lr=0.3)
    scheduler = schedule(optimizer)
    rates = []
    draws = (generator(1), generator(1))
    for _ in range(6):
        give_gradients(params, draws[0])
        give_gradients(others, draws[1])
        rates.append(scheduler.get_last_lr()[0])
        by_hand.param_groups[0]["lr"] = rates[-1]
        optimizer.step()
        by_hand.step()
        scheduler.step()
        assert same(values(params), values(others))
    assert rates[0] == 0.3
    assert rates[-1] < 0.2


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("frozen", [0.0, 0.3])
@pytest.mark.parametrize("polytope", [True, False])
def test_channels_last_weights_move_alike_and_keep_their_layout(scope: str, frozen: float, polytope: bool) -> None:
    shapes: list[tuple[int, ...]] = [(4, 3, 3, 3), (5, 4, 3, 3)]
    plain = parameters(shapes)
    strided = [nn.Parameter(p.detach().clone(memory_format=torch.channels_last)) for p in plain]
    results = []
    for params in (plain, strided):
        optimizer = FrankWolfe(
            params, lr=0.2, k=0.1, scope=scope, polytope=polytope, frozen=masks(params, frozen), rescale="diameter"
        )
        draw = generator(1)
        for _ in range(4):
            give_gradients(params, draw)
            for param in params if params is strided else ():
                assert param.grad is not None
                param.grad = param.grad.contiguous(memory_format=torch.channels_last)
            optimizer.step()
        results.append(values(params))
    for param, one, other in zip(strided, *results):
        assert param.is_contiguous(memory_format=torch.channels_last)
        assert not param.is_contiguous()
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    data = load_digits()
    x, y = torch.tensor(data.data, dtype=torch.float32) / 16 - 0.3, torch.tensor(data.target)
    return x[:1300], y[:1300], x[1300:], y[1300:]


def classifier() -> nn.Sequential:
    draw = generator(3)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    for layer in (model[0], model[2], model[4]):
        nn.init.kaiming_normal_(layer.weight, generator=draw)  # type: ignore[arg-type]
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return model


def batches(x: Tensor, y: Tensor, epochs: int) -> Iterator[tuple[Tensor, Tensor]]:
    draw = generator(4)
    for _ in range(epochs):
        for rows in torch.randperm(len(y), generator=draw).split(50):
            yield x[rows], y[rows]


def score(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    with torch.no_grad():
        logits = model(x)
    return float((logits.argmax(1) == y).float().mean()), float(cross_entropy(logits, y))


def prune(weights: list[Tensor], share: float) -> None:
    threshold = torch.cat([weight.detach().abs().flatten() for weight in weights]).quantile(share)
    with torch.no_grad():
        for weight in weights:
            weight.mul_(weight.abs() > threshold)


def test_it_learns_by_itself_and_what_it_learns_survives_pruning_unlike_with_sgd() -> None:
    x, y, test_x, test_y = digits()
    accuracy, lost, rise = {}, {}, {}
    for name in ("frank-wolfe", "sgd"):
        model, epochs = classifier(), 12
        hidden: list[Tensor] = [model[0].weight, model[2].weight]  # type: ignore[list-item]
        others = [param for param in model.parameters() if all(param is not weight for weight in hidden)]
        steps = epochs * 26
        optimizer: torch.optim.Optimizer
        if name == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        else:
            groups = [{"params": hidden}, {"params": others, "polytope": False, "lr": 0.05}]
            optimizer = FrankWolfe(groups, lr=8 / steps)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        for inputs, labels in batches(x, y, epochs):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            scheduler.step()
        accuracy[name], loss = score(model, test_x, test_y)
        prune(hidden, 0.8)
        pruned, worse = score(model, test_x, test_y)
        lost[name], rise[name] = accuracy[name] - pruned, worse - loss
    assert accuracy["frank-wolfe"] > 0.88
    assert accuracy["frank-wolfe"] > accuracy["sgd"] - 0.03
    assert lost["frank-wolfe"] < 0.02
    assert lost["sgd"] > 0.08
    assert rise["frank-wolfe"] < rise["sgd"] / 5


@pytest.mark.parametrize("rescale", ["none", "gradient", "diameter"])
def test_a_learning_rate_that_is_a_tensor_stays_as_it_is(rescale: str) -> None:
    rate, weight = torch.tensor(0.1), torch.nn.Parameter(torch.randn(20, generator=torch.Generator().manual_seed(0)))
    optimizer = FrankWolfe([weight], lr=rate, rescale=rescale)
    for _ in range(3):
        weight.grad = torch.ones(20)
        optimizer.step()
    assert rate.item() == pytest.approx(0.1)


def test_what_is_not_a_number_does_not_go_unnoticed() -> None:
    weight = torch.nn.Parameter(torch.ones(20))
    optimizer = FrankWolfe([weight], lr=0.1, k=0.1)
    weight.grad = torch.full((20,), torch.nan)
    optimizer.step()
    assert weight.isnan().any()


def test_a_global_polytope_counts_the_parameters_of_the_step_only() -> None:
    one, other = (torch.nn.Parameter(torch.ones(10)) for _ in range(2))
    optimizer = FrankWolfe([one, other], lr=0.5, k=0.5, radius=1.0, radius_scale="absolute", scope="global")
    one.grad, other.grad = torch.arange(10.0), torch.arange(10.0)
    optimizer.step()
    before = one.detach().clone()
    one.grad, other.grad = torch.arange(10.0) * 100, None
    optimizer.step()
    assert ((one.detach() - 0.5 * before).abs() > 1e-6).sum() == 5, "the others only shrink"


def test_the_bits_after_a_reload_are_the_same_in_any_memory_layout() -> None:
    def conv() -> torch.nn.Parameter:
        drawn = torch.randn(16, 8, 3, 3, generator=torch.Generator().manual_seed(0))
        return torch.nn.Parameter(drawn.contiguous(memory_format=torch.channels_last))

    def move(weight: torch.nn.Parameter, optimizer: FrankWolfe, first: int, last: int) -> None:
        for step in range(first, last):
            drawn = torch.randn(16, 8, 3, 3, generator=torch.Generator().manual_seed(100 + step))
            weight.grad = drawn.contiguous(memory_format=torch.channels_last)
            optimizer.step()

    whole, part = conv(), conv()
    optimizers = [FrankWolfe([weight], lr=0.1, rescale="gradient") for weight in (whole, part)]
    move(whole, optimizers[0], 0, 8)
    move(part, optimizers[1], 0, 4)
    state = optimizers[1].state_dict()
    state["state"][0]["momentum_buffer"] = state["state"][0]["momentum_buffer"].contiguous()  # as files hold it
    reloaded = FrankWolfe([part], lr=0.1, rescale="gradient")
    reloaded.load_state_dict(state)
    assert reloaded.state[part]["momentum_buffer"].is_contiguous(memory_format=torch.channels_last)
    move(part, reloaded, 4, 8)
    assert torch.equal(part, whole)
