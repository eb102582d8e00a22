import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.nets import Network
from esacl.objectives.base import Objective
from esacl.optim.gradient import GradientRule
from esacl.options import NoOptions
from esacl.selection.base import DataSelector, KeepAll
from esacl.types import Batch, Outputs, Replay, Trace
from tests.builders import batch, context, network, same, weights


class Penalised(Objective):
    """Retains by a penalty on the weights."""

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor:
        return torch.stack([value.square().sum() for value in net.stored.values()]).sum()


class Hardest(DataSelector):
    """The update set is the three examples with the largest loss."""

    ranking = "reuse"

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor:
        assert fit is not None
        assert len(fit) == len(batch)
        assert not fit.requires_grad
        return fit.topk(3).indices


class HardestByPass(Hardest):
    """The same, ranked before anything is computed with gradients."""

    ranking = "pass"


class Odd(DataSelector):
    """Every other example, whatever its loss."""

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor:
        assert fit is None
        return torch.arange(1, len(batch), 2)


class WantsTwo(Objective):
    """Will need the outputs of two examples, whatever is trained on."""

    def rows_to_store(self, batch: Batch) -> Tensor:
        return torch.tensor([5, 2])


class Contrasting(Objective):
    """An example's loss is how far its features (all views of it) are from those of the others, on average."""

    def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        views = outputs.features.view(len(batch.views), len(batch), -1)
        return torch.cdist(views, views).square().mean((0, 2)) * batch.y


def fill(net: Network, kind: type[Objective] = Objective, selector: type[DataSelector] = KeepAll) -> Trace:
    known = context()
    rule = GradientRule(NoOptions(), known)
    return rule.compute_gradients(net, kind(NoOptions(), known), batch(), selector(NoOptions(), known))


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


@pytest.mark.parametrize("selector", [Hardest, HardestByPass])
def test_only_the_examples_of_the_update_set_have_a_gradient(selector: type[DataSelector]) -> None:
    net, examples = network(), batch()
    trace = fill(net, selector=selector)
    fit = cross_entropy(net(examples.x).logits, examples.y, reduction="none")
    rows = fit.topk(3).indices
    assert_gradients(net, cross_entropy(net(examples.x[rows]).logits, examples.y[rows]))
    assert trace.updated == 3
    assert trace.loss.item() == pytest.approx(fit[rows].mean().item())
    assert len(trace.fit) == len(trace.outputs.logits) == 8


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("selector", [Hardest, HardestByPass, Odd])
def test_losses_that_compare_examples_compare_those_of_the_update_set(selector: type[DataSelector], views: int) -> None:
    """The chosen examples form a batch of their own; what is ranked and recorded are the losses in the whole one."""
    net, known, examples = network(), context(), batch(task=1)
    inputs = tuple((-1) ** view * examples.x for view in range(views))
    examples = Batch(inputs, examples.raw, examples.y, examples.task, examples.index)
    part, rule = Contrasting(NoOptions(), known), GradientRule(NoOptions(), known)
    trace = rule.compute_gradients(net, part, examples, selector(NoOptions(), known))
    whole = part.fit_loss(net(examples.inputs), examples)
    rows = torch.arange(1, 8, 2) if selector is Odd else whole.topk(3).indices
    chosen = examples.take(rows)
    alone = part.fit_loss(net(chosen.inputs), chosen)
    names = [name for name in net.stored if not name.startswith("head.")]
    expected = torch.autograd.grad(alone.mean(), [net.stored[name] for name in names], retain_graph=True)
    for name, gradient in zip(names, expected):
        torch.testing.assert_close(net.gradients()[name], gradient, rtol=1e-4, atol=1e-5)
    assert trace.loss.item() == pytest.approx(alone.mean().item())
    assert not torch.allclose(alone, whole[rows]), "in the whole batch they are compared with others too"
    torch.testing.assert_close(trace.fit, (alone if selector is Odd else whole).detach())


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


def test_without_fresh_losses_the_network_is_called_on_the_chosen_rows_only_and_the_trace_says_which() -> None:
    net, examples = network(), batch()
    trace = fill(net, selector=Odd)
    assert net.meter.executed_macs == {"train": 3 * 4 * net.meter.dense}
    assert trace.rows is not None
    assert trace.rows.tolist() == [1, 3, 5, 7]
    assert trace.updated == len(trace.fit) == len(trace.outputs.logits) == 4
    rows = torch.tensor([7, 1, 3])
    torch.testing.assert_close(trace.logits(rows), net(examples.x).logits[rows].detach())
    assert_gradients(net, cross_entropy(net(examples.x[1::2]).logits, examples.y[1::2]))


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_wanted_rows_change_neither_the_gradient_nor_any_statistic(backbone: str) -> None:
    with_them, without = network(backbone, 8), network(backbone, 8)
    fill(with_them, WantsTwo, Odd)
    fill(without, Objective, Odd)
    assert same(with_them.gradients(), without.gradients())
    assert same(weights(with_them), weights(without))


@pytest.mark.parametrize("apart", [False, True])
def test_wanted_rows_are_normalised_with_what_is_learnt_from_and_replayed(apart: bool) -> None:
    """BatchNorm: a logit that is stored is one that the network would give in the pass that it learns from."""
    replay = Replay(batch(4, task=1).x, batch(4, task=1).y, None, apart=apart)

    class Rehearsing(WantsTwo):
        def rehearse(self) -> Replay:
            return replay

    net, examples = network("cnn", 8), batch()
    company = [examples.x[1::2], *([] if apart else [replay.x])]
    with torch.no_grad(), net.untracked():
        expected = net(torch.cat([examples.x[2:3], *company])).logits[:1]
    trace = fill(net, Rehearsing, Odd)
    torch.testing.assert_close(trace.logits(torch.tensor([2])), expected)


def test_wanted_rows_are_seen_but_not_learnt_from() -> None:
    net, examples = network(), batch()
    trace = fill(net, WantsTwo, Odd)
    assert net.meter.executed_macs == {"train": (3 * 4 + 1) * net.meter.dense}  # 5 is chosen anyway
    assert trace.rows is not None
    assert trace.rows.tolist() == [1, 3, 5, 7, 2]
    assert trace.updated == 4
    fit = cross_entropy(net(examples.x).logits, examples.y, reduction="none").detach()
    torch.testing.assert_close(trace.fit, fit[trace.rows])
    torch.testing.assert_close(trace.loss, fit[1::2].mean())
    torch.testing.assert_close(trace.logits(torch.tensor([5, 2])), net(examples.x).logits[[5, 2]].detach())
    assert_gradients(net, cross_entropy(net(examples.x[1::2]).logits, examples.y[1::2]))


@pytest.mark.parametrize("selector", [KeepAll, Hardest, HardestByPass])
def test_nobody_is_asked_for_wanted_rows_where_all_are_seen(selector: type[DataSelector]) -> None:
    class NeverAsked(Objective):
        def rows_to_store(self, batch: Batch) -> Tensor:
            raise AssertionError("every row is seen")

    trace = fill(network(), NeverAsked, selector)
    assert trace.rows is None
    assert len(trace.fit) == 8


def test_the_logits_of_a_trace_are_those_of_the_first_view() -> None:
    examples, logits = batch(), torch.arange(48.0).view(16, 3)
    twice = Batch((examples.x, -examples.x), examples.raw, examples.y, examples.task, examples.index)
    everything = Trace(twice, Outputs(logits, logits), torch.zeros(8), torch.zeros(()), 8)
    assert torch.equal(everything.logits(torch.tensor([6, 0])), logits[[6, 0]])
    seen = torch.tensor([1, 4, 6])
    some = Trace(twice, Outputs(logits[:6], logits[:6]), torch.zeros(3), torch.zeros(()), 3, seen)
    assert torch.equal(some.logits(torch.tensor([6, 1])), logits[[2, 0]])


def test_the_network_is_called_once() -> None:
    net = network()
    fill(net)
    assert net.meter.executed_macs == {"train": 3 * 8 * net.meter.dense}
    assert net.meter.largest_step == 8
