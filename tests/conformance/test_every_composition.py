"""Promises that every method keeps, alone and combined with parts in every other slot."""

import random

import numpy as np
import torch

from esacl.nets.expansion import SEED
from esacl.objectives.base import Objective
from esacl.readouts.base import Readout
from esacl.training.events import StepDone
from tests.builders import finish, same, weights
from tests.conformance.build import build, trained
from tests.conformance.toys import COMPOSITIONS


def global_generators():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002


def test_it_learns_the_task_it_is_taught(method):
    learner = finish(build(method, epochs=8, augment=False, unpruned=True))
    learnt = learner.unpruned or learner.rows
    last = [row.task_il[min(stage, len(row.task_il) - 1)] for stage, row in enumerate(learnt)]
    assert min(last) >= 0.8, "each task is two classes: chance is 0.5"


def test_the_same_seed_gives_the_same_bits_whatever_global_generators_do_and_another_seed_does_not(method):
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    before = global_generators()
    again, other = finish(build(method)), finish(build(method, seed=1))
    assert global_generators() == before
    torch.manual_seed(2), np.random.seed(2), random.seed(2)  # noqa: NPY002
    first = trained(method)  # with these generators, or with whatever another test left
    assert same(weights(first.net), weights(again.net))
    assert first.rows == again.rows
    assert not same(weights(first.net), weights(other.net))


def test_evaluation_changes_nothing(method):
    training = build(method)
    steps = (event for event in training.run() if isinstance(event, StepDone))
    for number, _ in enumerate(steps):
        if number % 3 == 1:  # in the middle of every epoch
            training.net.train_mode()
            before = weights(training.net)
            training._evaluate()
            assert training.net.model.training
            assert same(before, weights(training.net))
    assert same(weights(training.net), weights(trained(method).net))


def test_cost_is_charged_and_sparse_is_never_above_executed(method):
    done = trained(method)
    meter = done.net.meter
    assert 0 < meter.sparse_macs["train"] <= meter.executed_macs["train"]
    if not done.parts.objective.trains:
        assert done.paper_macs == 0, "nothing is trained, and the paper's formula counts nothing else"
    elif not done.parts.sparsity.runs_parts:  # the paper's formula knows only the whole network, with gradients
        assert 0 < done.paper_macs <= meter.executed_macs["train"]
    masks = method.startswith(("toymask", "toyall", "sparcl", "nispa", "packnet", "wsn"))
    saved = {account: meter.sparse_macs[account] < meter.executed_macs[account] for account in ("train", "evaluate")}
    parts, prunes = done.parts, done.parts.sparsity.prunes
    consolidates = type(parts.objective).end_task is not Objective.end_task
    fits = type(parts.readout).fit is not Readout.fit
    if not (prunes and (consolidates or fits)):  # both see what pruning left; until then all weights are trained
        assert saved["train"] == masks
    assert saved["evaluate"] == (masks or prunes)


def test_ace_hides_absent_classes_from_the_fit_loss(method):
    masked = build(method, fit_loss="ace")
    objective = masked.parts.objective
    assert type(objective).fit_loss is Objective.fit_loss, "a method overrides example_loss, never the mask"
    if not objective.trains:
        assert not any(isinstance(event, StepDone) for event in masked.run())
        return
    next(event for event in masked.run() if isinstance(event, StepDone))
    batch_y = torch.tensor([0, 0, 1])
    logits = torch.zeros(3, 6, requires_grad=True)
    batch = _batch(masked, batch_y)
    outputs = masked.net(batch.x)._replace(logits=logits)
    (gradient,) = torch.autograd.grad(objective.fit_loss(outputs, batch).sum(), logits, allow_unused=True)
    if not objective.trains_head:
        assert gradient is None, "no loss reads a head that is fitted when the task has ended"
        return
    assert (gradient[:, 2:] == 0).all()
    assert (gradient[:, :2] != 0).all()


def _batch(training, y):
    from esacl.types import Batch

    train = training.stream.tasks[0].train
    rows = torch.stack([(train.y == label).nonzero()[0, 0] for label in y])
    raw = train.x[rows]
    return Batch((training.stream.inputs.plain(raw),), raw, y, torch.zeros_like(y), rows)


def test_it_is_described(method):
    assert COMPOSITIONS[method].about


def test_what_is_saved_is_what_was_evaluated(method):
    """The effective weights and the folded head, in a plain network without any part, answer as the readout does."""
    done = trained(method)
    plain = build(method).net
    plain.view = plain.route = None
    readout = done.parts.readout
    state = readout.folded(done.net.effective_state())
    if SEED in state:
        plain.model.expand(int(state[SEED]), state["head.weight"].shape[1])
    plain.model.load_state_dict(state)
    x = done.stream.inputs.plain(torch.cat([task.test.x for task in done.stream.tasks]))
    with done.net.inference(), plain.inference():
        evaluated, answered = readout.logits(done.net, x, None), plain(x).logits
    assert torch.equal(evaluated.argmax(1), answered.argmax(1))
    if done.parts.sparsity.runs_parts:  # sums of fewer terms are rounded elsewhere
        torch.testing.assert_close(evaluated, answered)
    elif type(readout).folded is Readout.folded:
        assert torch.equal(evaluated, answered), "the head is the network's own"
    shares = done.parts.sparsity.density(done.net)
    saved = done.net.effective_state()
    used = {name: saved[name].count_nonzero().item() / saved[name].numel() for name in shares}
    if method.startswith("sparcl"):  # a live weight is 0 when it comes to life
        assert all(0 < used[name] <= share < 1 for name, share in shares.items())
    elif method.startswith("wsn"):  # one task answers, all of them count
        assert all(0 < used[name] < share <= 1 for name, share in shares.items())
    else:
        assert shares == used
