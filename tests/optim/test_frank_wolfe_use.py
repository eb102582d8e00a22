from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from esacl.errors import ConfigError
from esacl.optim.frank_wolfe import FrankWolfe
from tests.optim.frank_wolfe_tools import (
    SCOPES,
    SHAPES,
    generator,
    give_gradients,
    masks,
    parameters,
    same,
    values,
)


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
