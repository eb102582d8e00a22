"""Promises that every method keeps, alone and combined with parts in every other slot."""

import random

import numpy as np
import pytest
import torch

from esacl import recipes
from esacl.config import NetConfig, TrainConfig
from esacl.objectives.base import Objective
from esacl.objectives.probe import LinearProbe
from esacl.objectives.readout import Readout
from esacl.training.checkpoint import Checkpoints
from esacl.training.events import StepDone
from tests.builders import finish, same, stream, trainer, weights
from tests.conformance.toys import COMPOSITIONS, SETTINGS

pytestmark = pytest.mark.usefixtures("known")


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(recipes, "METHODS", COMPOSITIONS)


@pytest.fixture(params=sorted(COMPOSITIONS))
def method(request):
    return request.param


def build(method, seed=0, epochs=2, augment=True, **train):
    of = stream(augment=augment)
    if COMPOSITIONS[method].part("objective").joint:
        of = of.joint()
    options = dict(SETTINGS.get(method, {}))
    net = options.pop("net", NetConfig("mlp", 16))
    if "buffer" in COMPOSITIONS[method].options("objective"):
        options["objective"] = {**options.get("objective", {}), "buffer": 20}
    settings = TrainConfig(epochs=epochs, batch_size=8, **train)
    return trainer(method, options=options, of=of, seed=seed, train=settings, net=net)


def global_generators():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002


def test_it_learns_the_task_it_is_taught(method):
    trained = finish(build(method, epochs=8, augment=False))
    learnt = trained.unpruned or trained.rows
    last = [row.task_il[min(stage, len(row.task_il) - 1)] for stage, row in enumerate(learnt)]
    assert min(last) >= 0.8, "each task is two classes: chance is 0.5"


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(method):
    first, again, other = finish(build(method)), finish(build(method)), finish(build(method, seed=1))
    assert same(weights(first.net), weights(again.net))
    assert first.rows == again.rows
    assert not same(weights(first.net), weights(other.net))


def test_it_touches_no_global_generator_and_depends_on_none(method):
    results = []
    for poison in (1, 2):
        torch.manual_seed(poison), np.random.seed(poison), random.seed(poison)  # noqa: NPY002
        before = global_generators()
        results.append(weights(finish(build(method)).net))
        assert global_generators() == before
    assert same(*results)


def test_it_resumes_at_every_boundary_to_the_same_bits_from_a_trainer_that_was_used_for_something_else(
    method, tmp_path
):
    """The state goes through a file; the trainer that continues has other weights, memories and statistics."""
    whole = build(method)
    saved = []
    for event in whole.run():
        if not isinstance(event, StepDone):
            checkpoints = Checkpoints(tmp_path / str(len(saved)))
            checkpoints.save(1, whole.state_dict())
            saved.append(checkpoints)
    assert len(saved) >= 3
    for checkpoints in saved:
        used = build(method)
        for _, event in zip(range(11), used.run()):
            assert event is not None
        with torch.no_grad():
            for value in used.net.stored.values():
                value.add_(1)
        fresh = build(method)
        fresh.net.load_state_dict(used.net.state_dict())
        fresh.parts.load_state_dict(used.parts.state_dict())
        state, problems = checkpoints.newest()
        assert problems == []
        fresh.load_state_dict(state)
        finish(fresh)
        assert same(weights(whole.net), weights(fresh.net))
        assert fresh.rows == whole.rows
        assert fresh.unpruned == whole.unpruned
        assert fresh.untrained == whole.untrained
        assert fresh.paper_macs == whole.paper_macs
        assert fresh.net.meter.state_dict() == whole.net.meter.state_dict()


def test_evaluation_changes_nothing(method):
    training = build(method)
    plain = finish(build(method))
    for event in training.run():
        if isinstance(event, StepDone):
            training.net.train_mode()
            before = weights(training.net)
            training._evaluate()
            assert training.net.model.training
            assert same(before, weights(training.net))
    assert same(weights(training.net), weights(plain.net))


def test_cost_is_charged_and_sparse_is_never_above_executed(method):
    trained = finish(build(method))
    meter = trained.net.meter
    assert 0 < meter.sparse_macs["train"] <= meter.executed_macs["train"]
    assert 0 < trained.paper_macs <= meter.executed_macs["train"]
    masks = method.startswith(("toymask", "toyall", "sparcl", "nispa", "packnet", "wsn"))
    saved = {account: meter.sparse_macs[account] < meter.executed_macs[account] for account in ("train", "evaluate")}
    parts, prunes = trained.parts, trained.parts.sparsity.prunes
    consolidates = type(parts.objective).end_task is not Objective.end_task
    fits = type(parts.readout).fit is not Readout.fit
    if not (prunes and (consolidates or fits)):  # both see what pruning left; until then all weights are trained
        assert saved["train"] == masks
    assert saved["evaluate"] == (masks or prunes)


def test_the_logit_mask_hides_absent_classes_from_the_fit_loss(method):
    masked = build(method, logit_mask="batch")
    objective = masked.parts.objective
    assert type(objective).fit_loss is Objective.fit_loss, "a method overrides example_loss, never the mask"
    next(iter(masked.run()))
    batch_y = torch.tensor([0, 0, 1])
    logits = torch.zeros(3, 6, requires_grad=True)
    batch = _batch(masked, batch_y)
    outputs = masked.net(batch.x)._replace(logits=logits)
    (gradient,) = torch.autograd.grad(objective.fit_loss(outputs, batch).sum(), logits, allow_unused=True)
    if isinstance(masked.parts.readout, LinearProbe):
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
    trained = finish(build(method))
    plain = build(method).net
    plain.view = None
    readout = trained.parts.readout
    plain.model.load_state_dict(readout.folded(trained.net.effective_state()))
    x = trained.stream.inputs.plain(torch.cat([task.test.x for task in trained.stream.tasks]))
    with trained.net.inference(), plain.inference():
        evaluated, answered = readout.logits(trained.net, x, None), plain(x).logits
    assert torch.equal(evaluated.argmax(1), answered.argmax(1))
    if type(readout).folded is Readout.folded:
        assert torch.equal(evaluated, answered), "the head is the network's own"
    shares = trained.parts.sparsity.density(trained.net)
    saved = trained.net.effective_state()
    used = {name: saved[name].count_nonzero().item() / saved[name].numel() for name in shares}
    if method.startswith("sparcl"):  # a live weight is 0 when it comes to life
        assert all(0 < used[name] <= share < 1 for name, share in shares.items())
    elif method.startswith("wsn"):  # one task answers, all of them count
        assert all(0 < used[name] < share <= 1 for name, share in shares.items())
    else:
        assert shares == used
