from itertools import combinations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import relu

from esacl.nets.connections import IMAGE, connections
from esacl.sparsity.stable_units import mean_activity, stable_units
from tests.builders import network, same, weights
from tests.reference.nispa import mean_of_units, smallest_set

IMAGES = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def activity(number: int, units: int = 9) -> Tensor:
    return torch.rand(units, generator=torch.Generator().manual_seed(number))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("number", range(8))
def test_stable_units_are_those_that_plain_loops_choose(number: int, share: float) -> None:
    seen = activity(number)
    held = activity(100 + number) < 0.3
    expected = smallest_set(seen.double().tolist(), held.tolist(), share)
    assert stable_units(seen, held, share).tolist() == expected


@pytest.mark.parametrize("number", range(5))
def test_no_smaller_set_with_the_held_units_carries_the_share(number: int) -> None:
    seen, held = activity(number).double(), activity(100 + number) < 0.2
    chosen = stable_units(seen, held, 0.7)
    assert bool(chosen[held].all())
    assert float(seen[chosen].sum()) >= 0.7 * float(seen.sum())
    free = (~held).nonzero().squeeze(1).tolist()
    for size in range(int(chosen.sum() - held.sum())):
        for some in combinations(free, size):
            fewer = held.clone()
            fewer[list(some)] = True
            assert float(seen[fewer].sum()) < 0.7 * float(seen.sum())


def test_silent_groups_choose_nothing_and_equally_active_units_the_first() -> None:
    nobody = torch.zeros(4, dtype=torch.bool)
    assert not bool(stable_units(torch.zeros(4), nobody, 0.9).any())
    assert stable_units(torch.ones(4), nobody, 0.5).tolist() == [True, True, False, False]
    assert stable_units(torch.ones(4), ~nobody, 0.5).tolist() == [True] * 4


def test_activity_is_what_the_next_layer_reads_on_average() -> None:
    net = network("mlp", 6)
    model = net.model
    with torch.no_grad():
        first = relu(model.backbone.first(IMAGES.flatten(1)))
        second = relu(model.backbone.second(first))
    readers = [one for one in connections(model) if one.reads != IMAGE]
    found = mean_activity(net, readers, [IMAGES[:4], IMAGES[4:]])
    assert found.keys() == {"first", "second"}
    for group, values in (("first", first), ("second", second)):
        torch.testing.assert_close(found[group] / 10, torch.tensor(mean_of_units(values)).double())


def test_activity_of_a_convolution_is_the_mean_over_places_in_evaluation_mode() -> None:
    net = network("cnn", 2)
    net.train_mode()
    net(IMAGES)
    before = weights(net)
    readers = [one for one in connections(net.model) if one.reads != IMAGE]
    found = mean_activity(net, readers, [IMAGES])
    assert same(before, weights(net))
    assert net.model.training
    layers = net.model.backbone.layers
    net.model.eval()
    with torch.no_grad():
        maps = {f"layers.{end}": layers[: end + depth](IMAGES) for end, depth in ((0, 4), (4, 4), (8, len(layers) - 8))}
    assert found.keys() == maps.keys()
    for group, values in maps.items():
        torch.testing.assert_close(
            found[group] / 10, torch.tensor(mean_of_units(values)).double(), rtol=1e-4, atol=1e-6
        )


def test_a_group_that_several_layers_read_counts_what_each_of_them_sees() -> None:
    net = network("resnet10", 2, (1, 9, 9))
    images = torch.randn(3, 1, 9, 9, generator=torch.Generator().manual_seed(1))
    readers = [one for one in connections(net.model) if one.reads == "stem"]
    assert len(readers) == 3
    together = mean_activity(net, readers, [images])["stem"]
    alone = [mean_activity(net, [one], [images])["stem"] for one in readers]
    torch.testing.assert_close(together, sum(alone))
