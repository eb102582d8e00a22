from copy import deepcopy

import torch
from torch import Tensor, nn

from esacl.nets import Network
from esacl.nets.frozen_batchnorm import StillChannels
from esacl.nets.statistics import recalibrate
from tests.builders import network, same, weights

NORM = "backbone.layers.1"
KEPT = torch.tensor([True, False, True, False])


def images(number: int) -> Tensor:
    return torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(number))


def used() -> tuple[Network, StillChannels, nn.BatchNorm2d]:
    """A network with statistics, two channels of which are still."""
    net = network("cnn", 4)
    still = StillChannels(net)
    net.train_mode()
    net(images(0))
    still.keep({NORM: KEPT})
    norm = net.model.get_submodule(NORM)
    assert isinstance(norm, nn.BatchNorm2d)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([0.5, 1.0, 2.0, 1.5]))
        norm.bias.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    return net, still, norm


def statistics(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    return norm.get_buffer("running_mean").clone(), norm.get_buffer("running_var").clone()


def test_a_still_channel_answers_in_training_as_in_evaluation_and_its_neighbours_by_the_batch() -> None:
    net, _, norm = used()
    plain = deepcopy(norm)
    plain._forward_hooks.clear()
    x = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(1))
    expected, trained = plain.eval()(x), plain.train()(x)
    net.train_mode()
    found = norm(x)
    torch.testing.assert_close(found[:, KEPT], expected[:, KEPT])
    assert torch.equal(found[:, ~KEPT], trained[:, ~KEPT])
    assert not torch.allclose(found[:, KEPT], trained[:, KEPT], atol=0.1)
    net.model.eval()
    torch.testing.assert_close(norm(x)[:, KEPT], expected[:, KEPT], rtol=0, atol=0)


def test_no_training_and_no_recalibration_moves_the_statistics_of_a_still_channel() -> None:
    net, still, norm = used()
    before = statistics(norm)
    net.train_mode()
    for number in range(3):
        net.backward(net(images(number)).logits.square().sum())
    for old, new in zip(before, statistics(norm)):
        assert torch.equal(old[KEPT], new[KEPT])
        assert not bool((old[~KEPT] == new[~KEPT]).any())
    trained = statistics(norm)
    recalibrate(net, [images(4), images(5)])
    for old, new in zip(trained, statistics(norm)):
        assert torch.equal(old[KEPT], new[KEPT])
        assert not bool((old[~KEPT] == new[~KEPT]).any())
    still.restart()
    mean, variance = statistics(norm)
    assert torch.equal(mean[~KEPT], torch.zeros(2))
    assert torch.equal(variance[~KEPT], torch.ones(2))
    assert torch.equal(mean[KEPT], before[0][KEPT])
    assert torch.equal(variance[KEPT], before[1][KEPT])


def test_gradients_pass_a_still_channel_as_a_plain_scaling() -> None:
    net, _, norm = used()
    net.train_mode()
    x = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    (gradient,) = torch.autograd.grad(norm(x)[:, KEPT].sum(), x)
    scale = norm.weight / (statistics(norm)[1] + norm.eps).sqrt()
    expected = torch.where(KEPT, scale, 0.0).view(1, 4, 1, 1).expand_as(x)
    torch.testing.assert_close(gradient, expected)


def test_the_state_goes_into_another_network() -> None:
    net, still, _ = used()
    other = network("cnn", 4, seed=1)
    loaded = StillChannels(other)
    other.load_state_dict(net.state_dict())
    loaded.load_state_dict(still.state_dict())
    for one in (net, other):
        one.train_mode()
        one(images(3))
    assert same(weights(net), weights(other))


def test_a_network_without_batch_norm_has_none() -> None:
    still = StillChannels(network("mlp"))
    still.keep({})
    still.restart()
    assert still.state_dict() == {}
