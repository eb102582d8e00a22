from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from esacl.nets import Network
from esacl.objectives.co2l import Co2l, Co2lOptions, contrastive_losses, project, relation_loss
from esacl.rng import generator
from esacl.training.events import StepDone
from esacl.training.step import train_step
from esacl.types import Batch, Outputs
from tests.builders import context, network, parts, stream, trainer
from tests.reference import co2l as naive

STREAM = stream(augment=True)


def points(count: int, seed: int = 0, size: int = 3) -> Tensor:
    drawn = torch.randn(count, size, generator=generator(seed, "points"), dtype=torch.float64)
    return normalize(drawn).requires_grad_()


def gradient(loss: Tensor, of: Tensor) -> Tensor:
    return torch.autograd.grad(loss, of, retain_graph=True)[0]


@pytest.mark.parametrize("temperature", [0.07, 0.5, 3.0])
@pytest.mark.parametrize("labels", [[0, 1, 0, 1, 0, 1, 2], [0, 0, 0, 0], [0, 1, 2], [4, 4, 1]])
def test_the_contrastive_loss_is_that_of_a_double_loop(labels: list[int], temperature: float) -> None:
    z = points(len(labels))
    losses = contrastive_losses(z, torch.tensor(labels), temperature)
    expected = torch.stack(naive.contrastive(z, labels, temperature))
    torch.testing.assert_close(losses, expected)
    weights = torch.arange(1.0, len(labels) + 1, dtype=torch.float64)
    torch.testing.assert_close(gradient(losses @ weights, z), gradient(expected @ weights, z))
    alone = [labels.count(label) == 1 for label in labels]
    assert [loss == 0 for loss in losses.tolist()] == alone


@pytest.mark.parametrize(("past", "present"), [(0.01, 0.2), (0.5, 0.5), (2.0, 0.1)])
def test_the_relation_loss_is_that_of_a_double_loop(past: float, present: float) -> None:
    then, now = points(7).detach(), points(7, seed=1)
    loss, expected = relation_loss(then, now, past, present), naive.relation(then, now, past, present)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(loss, now), gradient(expected, now))


def test_relations_that_are_as_before_at_the_same_temperature_are_the_minimum() -> None:
    z = points(6)
    loss = relation_loss(z.detach(), z, 0.3, 0.3)
    assert gradient(loss, z).abs().max() < 1e-12
    for seed in range(1, 6):
        assert relation_loss(z.detach(), normalize(z + 0.1 * points(6, seed)), 0.3, 0.3) > loss


def test_similarities_that_vanish_in_32_bits_leave_values_and_gradients_finite() -> None:
    z = torch.eye(4).repeat(2, 1)
    z[0] = torch.tensor([-1.0, 0.0, 0.0, 0.0])
    now = z.clone().requires_grad_()
    loss = relation_loss(z, now, 0.001, 0.001) + contrastive_losses(now, torch.arange(8) % 4, 0.001).sum()
    assert loss.isfinite()
    assert gradient(loss, now).isfinite().all()


def learning(net: Network, task: int = 1, seed: int = 0, **options: Any) -> Co2l:
    """An objective in its second task (or another)."""
    part = Co2l(Co2lOptions(**{"buffer": 12, "projection": 5, **options}), context(STREAM, seed=seed))
    part.attach(net)
    for number in range(task):
        part.begin_task(net, STREAM.tasks[number])
        part.end_task(net, STREAM.tasks[number])
    part.begin_task(net, STREAM.tasks[task])
    return part


def mixed(present: int = 4, earlier: int = 4) -> Batch:
    """Examples of the second task and of the first, in two views."""
    old, new = STREAM.tasks[0].train, STREAM.tasks[1].train
    picked = [new.take(torch.arange(present) * 5 % 24), old.take(torch.arange(earlier) * 7 % 24)]
    raw, y = (torch.cat(values) for values in zip(*((some.x, some.y) for some in picked)))
    index = torch.arange(len(y))
    views = tuple(STREAM.inputs.augmented(raw, key, index) for key in (1, 2))
    return Batch(views, raw, y, STREAM.task_of[y], index)


def disturb(net: Network, part: Co2l) -> None:
    with torch.no_grad():
        for value in (*net.stored.values(), *part.projection.values()):
            value.add_(0.1 * torch.randn(value.shape, generator=generator(3, "disturb")))


def test_an_examples_loss_is_that_of_its_views_and_only_the_present_task_has_a_gradient() -> None:
    net = network()
    part, batch = learning(net), mixed()
    z = project(net(batch.inputs).features, part.projection).detach().double().requires_grad_()
    labels, anchors = batch.y.repeat(2).tolist(), (batch.task == 1).repeat(2).tolist()
    part._project = lambda features, head: z  # type: ignore[method-assign]
    losses = part.fit_loss(net(batch.inputs), batch)
    each = naive.contrastive(z, labels, 0.5)
    expected = [(one + other).item() / 2 for one, other in zip(each[:8], each[8:])]
    assert losses.tolist() == pytest.approx(expected)
    torch.testing.assert_close(gradient(losses.mean(), z), gradient(naive.asymmetric(z, labels, anchors, 0.5), z))
    with_all = gradient(torch.stack(each).mean(), z)
    assert not torch.allclose(gradient(losses.mean(), z), with_all), "every example is an anchor in the plain loss"


def test_without_an_example_of_the_present_task_there_is_nothing_to_learn() -> None:
    net = network()
    part, batch = learning(net), mixed(present=0, earlier=8)
    losses = part.fit_loss(net(batch.inputs), batch)
    assert (losses > 0).all()
    net.backward(losses.mean() + 0 * net(batch.inputs).features.sum())
    assert all(value.count_nonzero() == 0 for value in net.gradients().values())


def test_relations_are_distilled_from_network_and_projection_of_before_the_task() -> None:
    net = network()
    part, batch = learning(net, distil=3.0), mixed()
    then = project(net(batch.inputs).features, part.projection).detach().double()
    disturb(net, part)
    outputs = net(batch.inputs)
    now = project(outputs.features, part.projection).double()
    loss = part.retain_loss(net, outputs, batch)
    assert loss is not None
    expected = 3 * naive.relation(then, now, 0.01, 0.2)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    for value in part.projection.values():
        torch.testing.assert_close(gradient(loss, value), gradient(expected, value), rtol=1e-3, atol=1e-4)


def test_nothing_is_retained_in_the_first_task() -> None:
    net = network()
    assert learning(net, task=0).retain_loss(net, net(mixed().inputs), mixed()) is None


SELECTIONS = [{"rule": "random"}, *({"rule": "loss", "ranking": name} for name in ("pass", "reuse", "stale"))]


@pytest.mark.parametrize("selection", SELECTIONS, ids=["random", "pass", "reuse", "stale"])
def test_data_selection_compares_the_examples_that_it_keeps_with_each_other_only(selection: dict[str, Any]) -> None:
    """The gradient of a step is that of both losses on the kept examples, as if they had been the whole batch."""
    options = {"objective": {"buffer": 12, "projection": 5, "distil": 2.0}, "selection": {"keep": 0.5, **selection}}
    net = network()
    composed = parts("esacl-co2l", options, context(STREAM))
    composed.attach(net)
    part, batch = composed.objective, mixed()
    part.begin_task(net, STREAM.tasks[0])
    part.end_task(net, STREAM.tasks[0])
    part.begin_task(net, STREAM.tasks[1])
    composed.selection.begin_task(8)
    composed.selection.observe(composed.gradient.compute_gradients(net, part, batch, composed.selection))
    disturb(net, part)
    ranked = None if selection["rule"] == "random" else part.fit_loss(net(batch.inputs), batch).detach()
    if selection.get("ranking") == "stale":
        ranked = None
        losses = torch.tensor([0.1, 8.0, 0.2, 5.0, 0.3, 9.0, 7.0, 0.4])
        composed.selection.losses.copy_(losses)
    rows = composed.selection.update_set(batch, ranked)
    assert rows is not None
    assert len(rows) == 4
    trace = composed.gradient.compute_gradients(net, part, batch, composed.selection)
    assert trace.updated == 4
    sub = replace(batch.take(rows), drawn=None)
    z = project(net(sub.inputs).features, part.projection).double()
    with torch.no_grad():
        old = project(part.teacher(sub.inputs).features, part._past).double()
    anchors = (sub.task == 1).repeat(2).tolist()
    assert any(anchors)
    loss = naive.asymmetric(z, sub.y.repeat(2).tolist(), anchors, 0.5) + 2 * naive.relation(old, z, 0.01, 0.2)
    for name, value in {**net.stored, **part.projection}.items():
        if name not in net.partition.head:
            assert value.grad is not None
            torch.testing.assert_close(value.grad, gradient(loss, value), rtol=1e-3, atol=1e-4)
    assert net.partition.head[0] not in net.gradients(), "no loss reads the head"


def test_the_projection_is_trained_with_the_network() -> None:
    net = network()
    composed = parts("co2l", {"objective": {"buffer": 12}}, context(STREAM))
    composed.attach(net)
    part = composed.objective
    part.begin_task(net, STREAM.tasks[0])
    assert set(net.extra) == {f"objective.{name}" for name in part.projection}
    before = {name: value.detach().clone() for name, value in part.projection.items()}
    head = net.stored["head.weight"].detach().clone()
    batch = mixed(present=0, earlier=8)
    train_step(net, composed, composed.update.build(net, {}, 1), batch)
    assert all(not torch.equal(value, before[name]) for name, value in part.projection.items())
    assert torch.equal(net.stored["head.weight"], head)


def test_both_projections_are_in_the_state() -> None:
    net, other = network(), network(seed=1)
    part, resumed = learning(net), learning(other, task=0, seed=1)
    disturb(net, part)
    held = dict(resumed.projection)
    resumed.load_state_dict(deepcopy(part.state_dict()))
    other.load_state_dict(net.state_dict())
    batch = mixed()
    for loss in ("fit_loss", "retain_loss"):
        mine, theirs = (
            own.fit_loss(n(batch.inputs), batch) if loss == "fit_loss" else own.retain_loss(n, n(batch.inputs), batch)
            for own, n in ((part, net), (resumed, other))
        )
        assert torch.equal(mine, theirs)
    assert all(resumed.projection[name] is value for name, value in held.items()), "the optimiser holds them"


def test_projections_are_charged_where_they_are_computed() -> None:
    net = network()
    part, batch = learning(net), mixed()
    macs, meter = 16 * 16 + 16 * 5, net.meter
    outputs = net(batch.inputs)

    def cost(call: Any) -> int:
        before = meter.executed_macs["train"]
        call()
        return meter.executed_macs["train"] - before

    assert cost(lambda: part.fit_loss(outputs, batch)) == 3 * 16 * macs
    assert cost(lambda: torch.no_grad()(part.fit_loss)(outputs, batch)) == 16 * macs
    assert cost(lambda: part.retain_loss(net, outputs, batch)) == (3 + 1) * 16 * macs + 16 * meter.dense


@pytest.mark.parametrize(("augment", "views"), [(True, 2), (False, 1)])
def test_two_views_of_each_example_are_compared_where_views_differ(augment: bool, views: int) -> None:
    training = trainer("co2l", {"objective": {"buffer": 12}}, stream(augment=augment))
    seen: list[Batch] = []
    fit_loss = training.parts.objective.fit_loss

    def watch(outputs: Outputs, batch: Batch) -> Tensor:
        seen.append(batch)
        assert len(outputs.features) == views * len(batch)
        return fit_loss(outputs, batch)

    training.parts.objective.fit_loss = watch
    next(event for event in training.run() if isinstance(event, StepDone))
    assert len(seen[0].views) == views
    if views == 2:
        assert not torch.equal(*seen[0].views)


def test_an_example_without_any_feature_has_a_finite_gradient() -> None:
    part = learning(network())
    features = torch.rand(6, 16, generator=generator(0, "features"))
    features[2] = 0
    z = project(features, part.projection)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(6))
    contrastive_losses(z, torch.arange(6) % 2, 0.5).mean().backward()
    assert all(value.grad is not None and value.grad.norm() < 10 for value in part.projection.values())


def test_exemplars_are_chosen_at_random_by_the_seed() -> None:
    def chosen(seed: int) -> Tensor:
        held = learning(network(), seed=seed).buffer_examples()
        assert held is not None
        return held.x

    assert torch.equal(chosen(0), chosen(0))
    assert not torch.equal(chosen(0), chosen(1))
    first = STREAM.tasks[0].train
    assert not torch.equal(chosen(0)[:6], first.x[first.y == 0][:6])
