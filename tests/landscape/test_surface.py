import pytest
import torch
from torch import Tensor

from esacl.landscape.surface import across, along, filter_normalised, moved, sharpness
from esacl.rng import generator
from esacl.types import Params
from tests.reference import landscape as naive


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bowl(weights: Params) -> Tensor:
    """A loss whose curvature grows from coordinate to coordinate."""
    flat = torch.cat([weight.flatten() for weight in weights.values()])
    return (torch.arange(1, len(flat) + 1) * flat.square()).sum() / 2


def test_every_filter_of_a_random_direction_is_as_long_as_that_of_the_weights_and_the_rest_stays() -> None:
    weights = {"conv": draw(4, 3, 3, 3).float(), "norm": draw(4).float()}
    found = filter_normalised(weights, ["conv"], generator(0, "test"))
    assert torch.allclose(found["conv"].flatten(1).norm(dim=1), weights["conv"].flatten(1).norm(dim=1))
    assert not found["norm"].any()
    drawn = torch.randn(weights["conv"].shape, generator=generator(0, "test"))
    twin = naive.filter_normalised(drawn.flatten(1).tolist(), weights["conv"].flatten(1).tolist())
    assert torch.allclose(found["conv"].flatten(1), torch.tensor(twin), atol=1e-5)


def test_the_plane_is_its_naive_twin() -> None:
    start, one, other = ({"w": draw(5, seed=seed)} for seed in range(3))
    lengths, widths = [-0.5, 0.0, 1.0], [-1.0, 0.0, 0.5, 1.0]
    found = list(across(bowl, start, one, other, lengths, widths))
    twin = naive.plane(
        lambda w: sum((i + 1) * x * x for i, x in enumerate(w)) / 2,
        *(each["w"].tolist() for each in (start, one, other)),
        lengths,
        widths,
    )
    assert found == pytest.approx([value for row in twin for value in row])


def test_a_line_passes_through_both_ends() -> None:
    start, end = {"w": draw(4)}, {"w": draw(4, seed=1)}
    way = {"w": end["w"] - start["w"]}
    assert list(along(bowl, start, way, [0.0, 1.0])) == pytest.approx([float(bowl(start)), float(bowl(end))])


def test_sharpness_is_the_growth_of_the_loss_one_step_uphill() -> None:
    weights = {"a": draw(3), "b": draw(2, 2, seed=1)}
    uphill = {"a": torch.arange(1, 4) * weights["a"], "b": torch.arange(4, 8).view(2, 2) * weights["b"]}
    size = float(torch.cat([each.flatten() for each in uphill.values()]).norm())
    expected = float(bowl(moved(weights, (0.1 / size, uphill))) - bowl(weights))
    assert sharpness(bowl, weights, 0.1) == pytest.approx(expected)
    assert expected > 0


def test_a_flatter_bowl_is_less_sharp_and_the_bottom_not_at_all() -> None:
    weights = {"w": draw(6)}
    assert sharpness(lambda w: 0.1 * bowl(w), weights, 0.1) < sharpness(bowl, weights, 0.1)
    assert sharpness(bowl, {"w": torch.zeros(6)}, 0.1) == 0.0
