import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.nets import Network
from esacl.objectives.base import Objective
from esacl.optim.gradient import GradientRule
from esacl.options import NoOptions
from esacl.selection.base import DataSelector, KeepAll
from esacl.types import Batch, Outputs, Trace
from tests.builders import batch, context, network, same, weights


class Penalised(Objective):
    """Retains by a penalty on the weights."""

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch) -> Tensor:
        return torch.stack([value.square().sum() for value in net.stored.values()]).sum()


class Hardest(DataSelector):
    """The update set is the three examples with the largest loss."""

    def update_set(self, fit: Tensor) -> Tensor:
        assert not fit.requires_grad
        return fit.topk(3).indices


def fill(net: Network, kind: type[Objective] = Objective, selector: type[DataSelector] = KeepAll) -> Trace:
    known = context()
    rule = GradientRule(NoOptions(), known)
    return rule.fill(net, kind(NoOptions(), known), batch(), selector(NoOptions(), known))


def assert_gradients(net: Network, loss: Tensor) -> None:
    names, values = zip(*net.stored.items())
    for name, gradient in zip(names, torch.autograd.grad(loss, values)):
        torch.testing.assert_close(net.gradients()[name], gradient, msg=name)


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_plain_gradient_is_autograds_of_fit_plus_retention(backbone: str) -> None:
    net, twin, examples = network(backbone), network(backbone), batch()
    trace = fill(net, Penalised)
    penalty = sum(value.square().sum() for value in twin.stored.values())
    loss = cross_entropy(twin(examples.x).logits, examples.y) + penalty
    expected = torch.autograd.grad(loss, list(twin.stored.values()))
    for name, gradient in zip(twin.stored, expected):
        torch.testing.assert_close(net.gradients()[name], gradient, msg=name)
    assert trace.loss.item() == pytest.approx(loss.item(), rel=1e-6)


def test_without_retention_it_is_the_gradient_of_the_mean_fit_loss() -> None:
    net, examples = network(), batch()
    fill(net)
    assert_gradients(net, cross_entropy(net(examples.x).logits, examples.y))


def test_only_the_examples_of_the_update_set_have_a_gradient() -> None:
    net, examples = network(), batch()
    trace = fill(net, selector=Hardest)
    fit = cross_entropy(net(examples.x).logits, examples.y, reduction="none")
    rows = fit.topk(3).indices
    assert_gradients(net, cross_entropy(net(examples.x[rows]).logits, examples.y[rows]))
    assert trace.updated == 3
    assert trace.loss.item() == pytest.approx(fit[rows].mean().item())
    assert len(trace.fit) == len(trace.outputs.logits) == 8


def test_the_weights_are_the_same_on_return_and_the_trace_is_what_was_computed_at_them() -> None:
    net, examples = network(), batch()
    before = weights(net)
    trace = fill(net)
    assert same(weights(net), before)
    outputs = net(examples.x)
    assert torch.equal(trace.outputs.logits, outputs.logits)
    assert torch.equal(trace.outputs.features, outputs.features)
    assert torch.equal(trace.fit, cross_entropy(outputs.logits, examples.y, reduction="none"))
    assert trace.updated == 8
    for value in (*trace.outputs, trace.fit, trace.loss):
        assert not value.requires_grad


def test_the_network_is_called_once() -> None:
    net = network()
    fill(net)
    assert net.meter.executed_macs == {"train": 3 * 8 * net.meter.dense}
    assert net.meter.largest_step == 8


def test_the_plain_rule_has_no_ascent() -> None:
    assert not GradientRule.ascends
