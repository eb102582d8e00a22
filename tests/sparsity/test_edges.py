from math import prod

import pytest
import torch
from torch import Tensor

from esacl.nets.connections import connections
from esacl.rng import generator
from esacl.sparsity.edges import edge_counts, rewired, scattered
from tests.builders import network
from tests.reference.nispa import layer_sizes

NETWORKS = [("mlp", 256, (1, 8, 8)), ("cnn", 32, (1, 8, 8)), ("resnet10", 16, (3, 32, 32)), ("resnet18", 4, (3, 9, 9))]


def shapes_of(backbone: str, width: int, shape: tuple[int, int, int]) -> dict[str, torch.Size]:
    net = network(backbone, width, shape)
    return {one.weight: net.stored[one.weight].shape for one in connections(net.model)[:-1]}


def mask(*rows: str) -> Tensor:
    """A mask as a picture: # is true."""
    return torch.tensor([[place == "#" for place in row] for row in rows])


@pytest.mark.parametrize("density", [0.5, 0.2, 0.03])
@pytest.mark.parametrize(("backbone", "width", "shape"), NETWORKS)
def test_edges_carry_the_share_of_weights_that_is_asked_for(
    backbone: str, width: int, shape: tuple[int, int, int], density: float
) -> None:
    shapes = shapes_of(backbone, width, shape)
    wanted = round(density * sum(size.numel() for size in shapes.values()))
    counts = edge_counts(shapes, wanted)
    weights = sum(count * shapes[name][2:].numel() for name, count in counts.items())
    kernel = max(size[2:].numel() for size in shapes.values())
    assert wanted - kernel < weights <= wanted
    assert all(0 <= count <= prod(shapes[name][:2]) for name, count in counts.items())


@pytest.mark.parametrize("density", [0.5, 0.2, 0.03])
@pytest.mark.parametrize(("backbone", "width", "shape"), NETWORKS)
def test_layers_share_the_edges_as_plain_loops_do(
    backbone: str, width: int, shape: tuple[int, int, int], density: float
) -> None:
    shapes = shapes_of(backbone, width, shape)
    budget = round(density * sum(size.numel() for size in shapes.values()))
    counts, sizes = edge_counts(shapes, budget), layer_sizes({n: tuple(s) for n, s in shapes.items()}, budget)
    for name, size in sizes.items():
        area = shapes[name][2:].numel()
        slack = 1 if area > 1 or backbone == "mlp" else 9  # what is less than a kernel goes to kernels of one weight
        assert counts[name] == pytest.approx(size / area, abs=slack + 1e-6)


def test_a_layer_that_reads_a_grey_image_is_dense() -> None:
    assert edge_counts(shapes_of(*NETWORKS[1]), 18490)["backbone.layers.0.weight"] == 32


def test_scattered_places_are_as_many_as_asked_for_and_only_where_allowed() -> None:
    allowed = [mask("##.", ".#."), mask("####")]
    for number in range(20):
        found = scattered(allowed, 4, generator(number, "test"))
        assert sum(int(one.sum()) for one in found) == 4
        assert all(not bool((one & ~free).any()) for one, free in zip(found, allowed))
    assert all(torch.equal(a, b) for a, b in zip(scattered(allowed, 99, generator(0, "test")), allowed))


def test_every_allowed_place_is_as_likely_as_any_other() -> None:
    allowed = [mask("##.", ".#."), mask("####")]
    counts = torch.zeros(10)
    for number in range(700):
        counts += torch.cat([one.flatten() for one in scattered(allowed, 2, generator(number, "test"))])
    expected = 700 * 2 / 7
    assert bool(((counts[counts > 0] - expected).abs() < 5 * expected**0.5).all())
    assert int((counts > 0).sum()) == 7


def test_dropped_edges_are_gone_and_as_many_grow_where_they_may() -> None:
    live = {"a": mask("##.", "#..", "..#")}
    dropped = {"a": mask("##.", "...", "...")}
    places = {"a": mask("...", "###", "###")}
    for number in range(20):
        after = rewired(live, {"a": 1}, 4, dropped, [places], generator(number, "test"))
        assert after is not None
        assert int(after["a"].sum()) == 4
        assert not bool(after["a"][0].any())
        assert int((after["a"] & live["a"])[1:].sum()) == 2, "what is not dropped stays"


def test_a_layer_grows_as_many_edges_as_it_lost_where_it_has_room() -> None:
    live = {"a": mask("##...."), "b": mask("#.....")}
    dropped = {"a": mask("##...."), "b": mask("......")}
    places = {"a": mask("..####"), "b": mask(".#####")}
    for number in range(20):
        after = rewired(live, {"a": 1, "b": 1}, 3, dropped, [places], generator(number, "test"))
        assert after is not None
        assert {name: int(edges.sum()) for name, edges in after.items()} == {"a": 2, "b": 1}


def test_what_finds_no_room_grows_in_other_layers_up_to_the_number_of_weights() -> None:
    """Ten kernels of one weight make one of nine, and one."""
    live = {"a": mask("##########"), "b": mask("..."), "c": mask("...#")}
    dropped = {name: edges if name == "a" else torch.zeros_like(edges) for name, edges in live.items()}
    places = {"a": mask(".........."), "b": mask("###"), "c": mask(".##.")}
    after = rewired(live, {"a": 1, "b": 9, "c": 1}, 11, dropped, [places], generator(0, "test"))
    assert after is not None
    assert {name: int(edges.sum()) for name, edges in after.items()} == {"a": 0, "b": 1, "c": 2}


def test_less_than_a_kernel_may_be_left_over_and_is_grown_when_there_is_room() -> None:
    live = {"a": mask("###"), "b": mask("....")}
    dropped = {"a": mask("###"), "b": mask("....")}
    full, free = {"a": mask("..."), "b": mask("....")}, {"a": mask("..."), "b": mask("####")}
    after = rewired(live, {"a": 1, "b": 2}, 3, dropped, [free], generator(0, "test"))
    assert after is not None
    assert {name: int(edges.sum()) for name, edges in after.items()} == {"a": 0, "b": 1}
    nothing = {name: torch.zeros_like(edges) for name, edges in live.items()}
    later = rewired(after, {"a": 1, "b": 2}, 3, nothing, [{**free, "a": mask("..#")}], generator(0, "test"))
    assert later is not None
    assert torch.equal(later["a"], mask("..#"))
    assert rewired(live, {"a": 1, "b": 2}, 3, dropped, [full], generator(0, "test")) is None


def test_places_of_the_second_choice_are_taken_only_when_the_first_are_full() -> None:
    live = {"a": mask("###...")}
    first, second = {"a": mask("....#.")}, {"a": mask("...#.#")}
    after = rewired(live, {"a": 1}, 3, live, [first, second], generator(0, "test"))
    assert after is not None
    assert torch.equal(after["a"], mask("...###"))
    assert rewired(live, {"a": 1}, 3, live, [first], generator(0, "test")) is None
