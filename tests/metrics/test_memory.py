from pathlib import Path

import pytest
import torch

from esacl.metrics.memory import Footprint, activation_bytes, footprint, peak_memory_bytes, reset_peak_memory
from esacl.types import Params
from tests.builders import CPU, network, same, weights

MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("width", [5, 16])
@pytest.mark.parametrize("classes", [2, 30])
def test_the_activations_of_an_mlp_are_its_input_and_its_two_hidden_layers(width: int, classes: int) -> None:
    assert activation_bytes(network("mlp", width, (1, 8, 8), classes)) == 4 * (64 + width + width)


def test_the_activations_of_a_convolutional_network_are_those_of_its_layers() -> None:
    """Each stage keeps its input, the convolution's output and the ReLU's; pooling also keeps where its maxima were."""
    width, floats, places = 4, 0, 0
    channels, size = 1, 8
    for out in (width, 2 * width, 4 * width):
        floats += 2 * out * size * size  # the convolution's output, and BatchNorm's (in place the ReLU's)
        if size >= 4:
            size //= 2
            floats += out * size * size  # the pooled image: the input of the next stage
            places += out * size * size  # int64 each
        channels = out
    floats += 64 + channels  # the image, and the features
    statistics = 2 * (4 + 8 + 16) // 2  # mean and deviation of every channel, over the two examples measured
    counted = activation_bytes(network("cnn", width, (1, 8, 8)))
    assert counted == 4 * (floats + statistics) + 8 * places


def test_activations_grow_with_the_image_and_do_not_depend_on_the_number_of_weights_of_the_head() -> None:
    small, large = network("cnn", 4, (1, 8, 8)), network("cnn", 4, (1, 16, 16))
    assert activation_bytes(large) > 3 * activation_bytes(small)
    assert activation_bytes(network("cnn", 4, (1, 8, 8), classes=500)) == activation_bytes(small)


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_measuring_has_no_side_effects(backbone: str) -> None:
    net = network(backbone)
    before, totals = weights(net), net.meter.state_dict()
    activation_bytes(net)
    assert same(weights(net), before)
    assert net.meter.state_dict() == totals
    assert all(p.requires_grad and p.grad is None for p in net.stored.values())
    assert net.model.training
    net.backward(net(torch.zeros(3, *net.shape)).logits.sum())
    assert net.meter.largest_step == 3


def test_a_view_does_not_change_what_is_counted() -> None:
    net = network()

    def view(params: Params, task: int | None) -> Params:
        return {name: value * 0.5 for name, value in params.items()}

    plain = activation_bytes(net)
    net.view = view
    assert activation_bytes(net) == plain


def test_the_footprint_is_weights_activations_of_a_step_and_gradients() -> None:
    net = network("mlp", 16, (1, 8, 8), 6)
    held = 4 * (64 * 16 + 16 + 16 * 16 + 16 + 16 * 6 + 6)
    assert footprint(net, 32) == Footprint(held, 32 * 4 * 96, held)
    assert footprint(net, 0).activations == 0


def resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_peak_is_at_least_what_was_there_and_what_was_allocated_on_top() -> None:
    reset_peak_memory(CPU)
    before = resident()
    block = torch.ones(200 * MEGABYTE // 4)
    assert block[-1] == 1
    del block
    assert peak_memory_bytes(CPU) >= before + 190 * MEGABYTE


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_the_peak_starts_anew_after_a_reset() -> None:
    block = torch.ones(200 * MEGABYTE // 4)
    before = peak_memory_bytes(CPU)
    del block
    reset_peak_memory(CPU)
    assert peak_memory_bytes(CPU) < before - 150 * MEGABYTE
