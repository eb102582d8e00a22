import json

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from esacl.nets import BACKBONES, build_model
from esacl.nets.macs import macs_per_example
from esacl.nets.meter import Meter
from tests.builders import network
from tests.reference.macs import macs

CASES = [
    ("mlp", 16, (1, 8, 8)),
    ("cnn", 4, (1, 8, 8)),
    ("cnn", 8, (3, 32, 32)),
    ("cnn", 4, (1, 9, 13)),
    ("resnet10", 4, (1, 8, 8)),
    ("resnet10", 8, (3, 32, 32)),
    ("resnet10", 4, (2, 11, 9)),
    ("resnet10", 16, (3, 16, 16)),
    ("resnet18", 4, (3, 64, 64)),
]


@pytest.mark.parametrize(("backbone", "width", "shape"), CASES)
def test_multiply_adds_of_each_layer_follow_the_formulas(
    backbone: str, width: int, shape: tuple[int, int, int]
) -> None:
    counted = macs_per_example(build_model(backbone, width, shape, 6, 0), shape)
    assert counted == macs(backbone, width, shape, 6)


@pytest.mark.parametrize(("backbone", "width", "shape"), CASES)
def test_a_forward_pass_is_what_torch_counts(backbone: str, width: int, shape: tuple[int, int, int]) -> None:
    net = network(backbone, width, shape)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net(torch.zeros(3, *shape))
    assert counter.get_total_flops() == 2 * 3 * net.meter.dense == 2 * net.meter.executed_macs["train"]


@pytest.mark.parametrize(("backbone", "width", "shape"), CASES)
def test_a_training_step_is_what_torch_counts_and_the_input_gradient_of_the_first_layer(
    backbone: str, width: int, shape: tuple[int, int, int]
) -> None:
    net = network(backbone, width, shape)
    with FlopCounterMode(display=False) as counter:
        net.backward(cross_entropy(net(torch.zeros(3, *shape)).logits, torch.zeros(3, dtype=torch.int64)))
    first = next(iter(net.meter.layers.values()))
    assert 2 * net.meter.executed_macs["train"] - counter.get_total_flops() == 2 * 3 * first


@pytest.mark.parametrize(("classes", "total"), [(10, 555_422_720), (200, 555_520_000)])
def test_the_papers_resnet18_costs_0_56_billion_multiply_adds_for_a_cifar_image(classes: int, total: int) -> None:
    counted = macs_per_example(build_model("resnet18", 64, (3, 32, 32), classes, 0), (3, 32, 32))
    assert sum(counted.values()) == total


@pytest.mark.parametrize("backbone", BACKBONES)
def test_counting_leaves_mode_statistics_and_hooks_as_they_were(backbone: str) -> None:
    model = build_model(backbone, 4, (1, 8, 8), 6, 0).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    macs_per_example(model, (1, 8, 8))
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_call_costs_three_times_as_much_with_gradients_on() -> None:
    meter = Meter({"a": 10, "b": 5})
    with torch.no_grad():
        meter.count(4)
    assert meter.executed_macs == {"train": 4 * 15}
    meter.count(2)
    assert meter.executed_macs == {"train": 4 * 15 + 3 * 2 * 15}


def test_zero_weights_are_credited_to_sparse_only_from_then_on_and_layer_by_layer() -> None:
    meter = Meter({"a": 10, "b": 5, "c": 1})
    meter.count(1)
    meter.set_density({"a": 0.5, "b": 0.2})
    meter.count(1)
    assert meter.executed_macs["train"] == 3 * 16 * 2
    assert meter.sparse_macs["train"] == pytest.approx(3 * 16 + 3 * (5 + 1 + 1))
    meter.set_density({})
    assert meter.sparse == 16


def test_gradients_of_all_weights_are_charged_where_zeros_need_theirs() -> None:
    meter = Meter({"a": 10, "b": 5})
    meter.set_density({"a": 0.5}, dense_gradients=True)
    meter.count(2)
    assert meter.sparse_macs["train"] == 2 * (10 + 10 + 15), "forward, inputs, and every weight"
    with torch.no_grad():
        meter.count(2)
    assert meter.sparse_macs["train"] == 2 * (10 + 10 + 15) + 2 * 10


def test_other_arithmetic_is_charged_as_it_is_to_the_open_account() -> None:
    """Whether gradients are on and how many weights are zero is known to whoever charges it."""
    meter = Meter({"a": 10})
    meter.set_density({"a": 0.5})
    meter.charge(7)
    with torch.no_grad(), meter.account("evaluate"):
        meter.charge(3)
    assert meter.executed_macs == {"train": 7, "evaluate": 3}
    assert meter.sparse_macs == {"train": 7.0, "evaluate": 3.0}
    meter.release()
    assert meter.largest_step == 0, "it holds no activations"


def test_accounts_are_apart_nest_and_close_even_after_an_error() -> None:
    meter = Meter({"a": 1})

    def fail() -> None:
        with torch.no_grad(), meter.account("evaluate"):
            meter.count(5)
            with meter.account("probe"):
                meter.count(7)
            meter.count(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with torch.no_grad():
        meter.count(2)
    assert meter.executed_macs == {"evaluate": 6, "probe": 7, "train": 2}
    assert meter.sparse_macs == {"evaluate": 6.0, "probe": 7.0, "train": 2.0}


def test_the_largest_step_is_the_most_examples_held_for_one_backward_pass() -> None:
    meter = Meter({"a": 1})
    meter.count(4)
    meter.count(3)
    meter.release()
    assert meter.largest_step == 7
    with torch.no_grad():
        meter.count(100)
    meter.count(5)
    meter.release()
    meter.release()
    assert meter.largest_step == 7
    meter.count(8)
    meter.release()
    assert meter.largest_step == 8


def test_a_network_releases_what_it_holds_at_every_backward_pass() -> None:
    net = network()
    for _ in range(3):
        loss = net(torch.zeros(4, 1, 8, 8)).logits.sum() + net(torch.zeros(2, 1, 8, 8)).logits.sum()
        net.backward(loss)
    assert net.meter.largest_step == 6


def test_totals_continue_from_a_saved_state() -> None:
    meter, other = Meter({"a": 10}), Meter({"a": 10})
    for m in (meter, other):
        m.set_density({"a": 0.5})
        m.count(3)
        m.release()
    resumed = Meter({"a": 10})
    resumed.count(99)
    resumed.load_state_dict(json.loads(json.dumps(meter.state_dict())))
    for m in (resumed, other):
        m.count(2)
        m.release()
    assert resumed.state_dict() == other.state_dict()
    assert resumed.largest_step == 3


def test_a_saved_state_does_not_change_with_the_meter() -> None:
    meter = Meter({"a": 10})
    meter.count(1)
    state = meter.state_dict()
    meter.count(1)
    assert state["executed_macs"] == {"train": 30}
