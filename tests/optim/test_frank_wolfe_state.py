from copy import deepcopy
from io import BytesIO

import pytest
import torch
from torch import Tensor, nn

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
