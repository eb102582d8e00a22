import pytest
import torch
from torch.nn.functional import cross_entropy

from esacl.types import Outputs
from tests.builders import network, same, weights
from tests.nets.pictures import BACKBONES, images, labels


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("precision", ["bf16", "16"])
def test_mixed_precision_answers_in_float32_near_the_full_answer(backbone: str, precision: str) -> None:
    net = network(backbone, precision=precision)
    outputs = net(images())
    assert isinstance(outputs, Outputs)
    assert outputs.features.dtype == outputs.logits.dtype == torch.float32
    full = network(backbone)(images())
    assert not torch.equal(outputs.logits, full.logits)
    torch.testing.assert_close(outputs.logits, full.logits, rtol=0.1, atol=0.15)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("precision", ["bf16", "16"])
def test_a_mixed_precision_step_lowers_the_loss_and_keeps_float32_weights(backbone: str, precision: str) -> None:
    net = network(backbone, precision=precision)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.05)
    losses = []
    for _ in range(6):
        loss = cross_entropy(net(images()).logits, labels())
        net.backward(loss)
        net.unscale(optimizer)
        net.step(optimizer)
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert {p.dtype for p in net.stored.values()} == {torch.float32}


def test_gradients_of_16_bit_arithmetic_are_scaled_until_unscaled() -> None:
    net, full = network(precision="16"), network()
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    for n in (net, full):
        n.backward(cross_entropy(n(images()).logits, labels()))
    scaled = net.gradients()["head.bias"].abs().max().item()
    true = full.gradients()["head.bias"].abs().max().item()
    assert scaled > 1000 * true
    net.unscale(optimizer)
    assert net.gradients()["head.bias"].abs().max().item() == pytest.approx(true, rel=0.02)
    before = weights(net)
    net.step(optimizer)
    expected = before["head.bias"] - 0.1 * net.gradients()["head.bias"]
    torch.testing.assert_close(net.stored["head.bias"].detach(), expected)


def test_a_16_bit_step_whose_gradient_overflowed_is_skipped_and_the_scale_is_lowered() -> None:
    net = network(precision="16")
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1, momentum=0.9)
    before, scale = weights(net), net.scaler.get_scale()
    net.backward(cross_entropy(net(images()).logits, labels()) * 1e36)
    net.unscale(optimizer)
    net.step(optimizer)
    assert same(weights(net), before)
    assert net.scaler.get_scale() < scale
    net.backward(cross_entropy(net(images()).logits, labels()))
    net.unscale(optimizer)
    net.step(optimizer)
    assert not same(weights(net), before)


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_other_precisions_do_not_scale(precision: str) -> None:
    net = network(precision=precision)
    assert not net.scaler.is_enabled()
    net.backward(net(images()).logits.sum())
    torch.testing.assert_close(net.gradients()["head.bias"], torch.full((6,), 6.0))
