import pytest
import torch
from torch.nn.functional import cross_entropy

from esacl.options import NoOptions
from esacl.training.step import memory_gradients, train_step
from tests.builders import batch, context, network, parts, same
from tests.training.step_tools import (
    FROZEN,
    Watching,
    optimizer_of,
    take_steps,
)


def test_memory_gradients_are_autograds_and_leave_the_gradients_of_the_step_alone() -> None:
    net, composed = network(), parts("er")
    take_steps(net, composed, 3)
    net.backward(net(batch().x).logits.sum())
    before = {name: (id(p.grad), p.grad.clone()) for name, p in net.stored.items() if p.grad is not None}
    twin = parts("er")
    twin.objective.load_state_dict(composed.objective.state_dict())
    found = memory_gradients(net, composed, 6)
    remembered = twin.objective.memory_batch(6)
    assert remembered is not None
    x, y = remembered
    assert len(y) == 6
    expected = torch.autograd.grad(cross_entropy(net(x).logits, y), list(net.stored.values()))
    assert list(found) == list(net.stored)
    for name, gradient in zip(net.stored, expected):
        assert torch.equal(found[name], gradient)
        identity, value = before[name]
        assert id(net.stored[name].grad) == identity
        assert torch.equal(net.gradients()[name], value)


def test_memory_gradients_hold_their_activations_for_their_own_backward_pass_only() -> None:
    net, composed = network(), parts("er")
    take_steps(net, composed, 3)
    assert net.meter.largest_step == 16  # the batch and as many replayed examples
    memory_gradients(net, composed, 12)
    train_step(net, composed, optimizer_of(net), batch(task=1))
    assert net.meter.largest_step == 16


@pytest.mark.parametrize("method", ["finetune", "er"])
def test_without_a_memory_of_earlier_tasks_there_are_no_memory_gradients(method: str) -> None:
    assert memory_gradients(network(), parts(method), 4) == {}


def test_true_gradients_are_observed_before_the_step_by_those_who_ask() -> None:
    net, twin, watcher = network(), network(), Watching(NoOptions(), context())
    examples = batch()
    train_step(net, parts(replacing={"sparsity": watcher}), optimizer_of(net), examples)
    twin.backward(cross_entropy(twin(examples.x).logits, examples.y))
    (gradients, remembered), *more = watcher.seen
    assert not more
    assert same(gradients, twin.gradients())
    assert remembered == {}


def test_gradients_observed_in_16_bit_arithmetic_have_their_true_scale() -> None:
    net, full, watcher = network(precision="16"), network(), Watching(NoOptions(), context())
    examples = batch()
    train_step(net, parts(replacing={"sparsity": watcher}), optimizer_of(net), examples)
    full.backward(cross_entropy(full(examples.x).logits, examples.y))
    for name, gradient in full.gradients().items():
        torch.testing.assert_close(watcher.seen[0][0][name], gradient, rtol=0.05, atol=0.01, msg=name)


def test_gradients_of_remembered_examples_are_there_on_demand() -> None:
    net, watcher = network(), Watching(NoOptions(), context())
    composed = parts(replacing={"sparsity": watcher})
    take_steps(net, composed)
    assert [bool(remembered) for _, remembered in watcher.seen] == [False, False, True, True, True]
    assert not torch.equal(watcher.seen[-1][0][FROZEN], watcher.seen[-1][1][FROZEN])


def test_nobody_is_shown_gradients_who_did_not_ask() -> None:
    class Silent(Watching):
        observes_gradients = False

    net, silent = network(), Silent(NoOptions(), context())
    take_steps(net, parts(replacing={"sparsity": silent}))
    assert silent.seen == []
