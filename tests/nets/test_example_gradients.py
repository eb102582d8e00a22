import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.nets import Network
from esacl.rng import generator
from esacl.types import Outputs, Params
from tests.builders import network, same, weights

X = torch.randn(5, 1, 8, 8, generator=generator(0, "examples"))
Y = torch.tensor([0, 3, 3, 5, 1])


def loss(outputs: Outputs, y: Tensor) -> Tensor:
    return cross_entropy(outputs.logits, y)


def used(backbone: str, viewed: bool = False, precision: str = "32") -> Network:
    """A network whose statistics have moved, in training mode; perhaps seen through a mask."""
    net = network(backbone, 4, precision=precision)
    net(3 * X + 1)
    if viewed:
        draw = generator(0, "mask")
        keep = {n: torch.rand(net.stored[n].shape, generator=draw) < 0.5 for n in net.partition.prunable}
        net.view = lambda stored, task: {n: p * keep[n] if n in keep else p for n, p in stored.items()}
    return net


def one_by_one(net: Network) -> list[Params]:
    net.model.eval()
    found = []
    for row in range(len(X)):
        value = loss(net(X[row : row + 1]), Y[row : row + 1])
        found.append(dict(zip(net.stored, torch.autograd.grad(value, list(net.stored.values())))))
    return found


@pytest.mark.parametrize("viewed", [False, True])
@pytest.mark.parametrize("backbone", ["mlp", "cnn", "resnet10"])
def test_each_example_has_the_gradient_that_it_has_alone(backbone: str, viewed: bool) -> None:
    gradients = used(backbone, viewed).example_gradients(loss, X, Y)
    expected = one_by_one(used(backbone, viewed))
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, torch.stack([each[name] for each in expected]), rtol=1e-4, atol=1e-5)
    assert gradients.keys() == used(backbone).stored.keys()
    assert not torch.allclose(gradients["head.weight"][0], gradients["head.weight"][1])


def test_the_loss_sees_one_example_at_a_time() -> None:
    shapes = []

    def watch(outputs: Outputs, y: Tensor) -> Tensor:
        shapes.append((tuple(outputs.features.shape[:1]), tuple(outputs.logits.shape), tuple(y.shape)))
        return loss(outputs, y)

    used("mlp").example_gradients(watch, X, Y)
    assert set(shapes) == {((1,), (1, 6), (1,))}


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_they_leave_weights_statistics_gradients_and_mode_alone(backbone: str) -> None:
    net = used(backbone)
    net.backward(loss(net(X), Y))
    before, gradients = weights(net), {name: value.clone() for name, value in net.gradients().items()}
    net.example_gradients(loss, X, Y)
    assert same(weights(net), before)
    assert same(net.gradients(), gradients)
    assert all(module.training for module in net.model.modules())
    assert torch.is_grad_enabled()
    with torch.no_grad():
        net.example_gradients(loss, X, Y)
        assert not torch.is_grad_enabled()


def test_they_are_charged_like_a_pass_with_gradients_to_the_open_account() -> None:
    net = network()
    net.example_gradients(loss, X, Y)
    assert net.meter.executed_macs == {"train": 3 * len(X) * net.meter.dense}
    assert net.meter.largest_step == len(X)
    with net.meter.account("evaluate"):
        net.example_gradients(loss, X[:2], Y[:2])
    assert net.meter.executed_macs["evaluate"] == 3 * 2 * net.meter.dense
    assert net.meter.largest_step == len(X), "what they held is released"


@pytest.mark.parametrize("precision", ["bf16", "16"])
def test_they_are_in_full_precision_whatever_training_uses(precision: str) -> None:
    full, mixed = (used("mlp", precision=each).example_gradients(loss, X, Y) for each in ("32", precision))
    assert same(full, mixed)
