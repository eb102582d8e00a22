"""Widths of a network: old channels answer as before, and weights that contradict each other have none."""

import pytest
import torch

from esacl.nets.widths import set_widths, widths_of
from tests.builders import network

NETS = [("mlp", 6), ("cnn", 4), ("resnet10", 4)]


@pytest.mark.parametrize(("backbone", "width"), NETS)
def test_a_wider_network_answers_as_before_and_costs_more(backbone, width):
    net = network(backbone, width, (1, 10, 10))
    x = torch.randn(4, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    with net.inference():
        before = net(x)
    cost, found = net.meter.dense, widths_of(net.model, net.stored)
    net.widen({group: units + 3 for group, units in found.items()})
    with net.inference():
        after = net(x)
    torch.testing.assert_close(after.logits, before.logits)
    assert after.features.shape[1] == before.features.shape[1] + 3
    assert not after.features[:, before.features.shape[1] :].any()
    assert net.meter.dense > cost
    assert widths_of(net.model, net.stored) == {group: units + 3 for group, units in found.items()}


@pytest.mark.parametrize(("backbone", "width"), NETS)
def test_a_network_takes_the_widths_of_the_state_that_it_loads(backbone, width):
    wide, narrow = network(backbone, width + 2, (1, 10, 10), seed=1), network(backbone, width, (1, 10, 10))
    narrow.load_state_dict(wide.state_dict())
    x = torch.randn(4, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    with wide.inference(), narrow.inference():
        assert torch.equal(narrow(x).logits, wide(x).logits)
    assert narrow.meter.layers == wide.meter.layers


def test_weights_that_contradict_each_other_have_no_widths():
    model = network("cnn", 4).model
    state = dict(model.state_dict())
    assert widths_of(model, state) == {"layers.0": 4, "layers.4": 8, "layers.8": 16}
    set_widths(model, {"layers.4": 9})
    assert widths_of(network("cnn", 4).model, model.state_dict()) == {"layers.0": 4, "layers.4": 9, "layers.8": 16}
    assert widths_of(model, {**model.state_dict(), "head.weight": torch.zeros(6, 15)}) is None
    assert widths_of(model, {**model.state_dict(), "head.weight": torch.zeros(5, 16)}) is None
    assert widths_of(model, {**model.state_dict(), "head.weight": torch.zeros(96)}) is None
    assert (
        widths_of(model, {name: value for name, value in state.items() if name != "backbone.layers.0.weight"}) is None
    )
