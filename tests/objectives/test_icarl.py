from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestCentroid
from torch import Tensor
from torch.nn.functional import normalize

from esacl.columns import MASKED
from esacl.nets import Network
from esacl.objectives.exemplars import ExemplarOptions
from esacl.objectives.icarl import Icarl, herd
from esacl.options import NoOptions
from esacl.readouts.nearest_mean import NearestMean
from esacl.rng import generator
from esacl.streams.base import Examples, Task
from esacl.types import Batch
from tests.builders import CPU, context, network, stream
from tests.reference import icarl as naive

STREAM = stream()


def points(count: int, size: int, seed: int) -> Tensor:
    return torch.randn(count, size, generator=generator(seed, "points"), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(5))
def test_herding_takes_what_trying_every_row_takes(seed: int) -> None:
    features = normalize(points(15, 4, seed))
    assert herd(features, 15).tolist() == naive.herd(features.tolist(), 15)
    assert herd(features, 4).tolist() == naive.herd(features.tolist(), 4), "the first are the same for any number"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=10), st.data())
def test_no_row_left_would_bring_the_running_mean_nearer(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    features = torch.tensor(rows, dtype=torch.float64)
    taken = herd(features, data.draw(st.integers(1, len(rows)))).tolist()
    assert len(set(taken)) == len(taken)
    for step, row in enumerate(taken):
        left = naive.candidates(features.tolist(), taken[:step])
        assert left[row] <= min(left.values()) + 1e-9  # several can be equally near


def learnt(buffer: int = 12, net: Network | None = None) -> tuple[Icarl, Network]:
    """After the first task, in the second."""
    net = net or network()
    part = Icarl(ExemplarOptions(buffer), context(STREAM, columns="seen"))
    part.attach(net)
    part.begin_task(net, STREAM.tasks[0])
    part.end_task(net, STREAM.tasks[0])
    part.begin_task(net, STREAM.tasks[1])
    return part, net


def some_of_both(part: Icarl, count: int = 4) -> Batch:
    """New examples, and exemplars of the first task."""
    both = part.training_set(STREAM.tasks[1])
    rows = torch.cat([torch.arange(count) * 5, len(both) - 1 - 3 * torch.arange(count)])
    raw, y = both.x[rows], both.y[rows]
    return Batch((STREAM.inputs.plain(raw),), raw, y, STREAM.task_of[y], rows)


def disturb(net: Network) -> None:
    with torch.no_grad():
        for value in net.stored.values():
            value.mul_(1.2)


def test_exemplars_are_herded_on_normalised_features_of_the_network_as_it_is_when_the_task_ends() -> None:
    part, net = learnt()
    train, held = STREAM.tasks[0].train, part.buffer_examples()
    assert held is not None
    for column in (0, 1):
        own = train.x[train.y == column]
        with net.inference():
            features = normalize(net(STREAM.inputs.plain(own)).features.double())
        assert torch.equal(held.x[held.y == column], own[naive.herd(features.tolist(), 6)])


def test_new_columns_learn_from_labels_and_exemplars_belong_to_none_of_them() -> None:
    part, net = learnt()
    batch = some_of_both(part)
    assert set(batch.y.tolist()) == {0, 1, 2, 3}
    outputs = net(batch.x)
    losses = part.fit_loss(outputs, batch)
    expected = [naive.fit(row, label, [2, 3]) for row, label in zip(outputs.logits.tolist(), batch.y.tolist())]
    assert losses.tolist() == pytest.approx(expected, rel=1e-5)
    (gradient,) = torch.autograd.grad(losses.sum(), outputs.logits)
    old = batch.task == 0
    assert (gradient[old][:, 2:4] > 0).all(), "an exemplar pushes every new column down"
    assert (gradient[:, [0, 1, 4, 5]] == 0).all()


def test_old_columns_learn_from_the_sigmoids_of_the_network_before_the_task() -> None:
    part, net = learnt()
    before = deepcopy(net)
    disturb(net)
    batch = some_of_both(part)
    outputs = net(batch.x)
    loss = part.retain_loss(net, outputs, batch)
    assert loss is not None
    with before.inference():
        told = before(batch.x).logits.tolist()
    expected = [naive.retained(now, then, [0, 1]) for now, then in zip(outputs.logits.tolist(), told)]
    assert loss.item() == pytest.approx(sum(expected) / len(batch), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, outputs.logits)
    assert (gradient[:, :2] != 0).all()
    assert (gradient[:, 2:] == 0).all()


def test_what_is_retained_is_at_its_minimum_while_the_network_is_as_it_was() -> None:
    part, net = learnt()
    batch = some_of_both(part)
    with torch.no_grad():
        logits = net(batch.x).logits
    same = net(batch.x)._replace(logits=logits.requires_grad_())
    loss = part.retain_loss(net, same, batch)
    assert loss is not None
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.abs().max() < 1e-7


def test_nothing_is_retained_in_the_first_task() -> None:
    net = network()
    part = Icarl(ExemplarOptions(12), context(STREAM, columns="seen"))
    part.attach(net)
    part.begin_task(net, STREAM.tasks[0])
    raw, y = STREAM.tasks[0].train.x[:4], STREAM.tasks[0].train.y[:4]
    batch = Batch((STREAM.inputs.plain(raw),), raw, y, STREAM.task_of[y], torch.arange(4))
    assert part.retain_loss(net, net(batch.x), batch) is None


def test_a_call_of_the_teacher_is_all_that_retention_costs() -> None:
    part, net = learnt()
    batch = some_of_both(part)
    outputs = net(batch.x)
    before = net.meter.executed_macs["train"]
    part.retain_loss(net, outputs, batch)
    assert net.meter.executed_macs["train"] - before == len(batch) * net.meter.dense


def fitted(net: Network, task: Task, remembered: Examples | None) -> NearestMean:
    readout = NearestMean(NoOptions(), context(STREAM))
    readout.attach(net)
    readout.fit(net, task, remembered)
    return readout


def test_the_nearest_mean_is_the_one_that_scikit_learn_finds() -> None:
    part, net = learnt(60)
    part.end_task(net, STREAM.tasks[1])
    held = part.buffer_examples()
    assert held is not None
    readout = fitted(net, STREAM.tasks[1], held)
    x = STREAM.inputs.plain(torch.cat([task.test.x for task in STREAM.tasks]))
    with net.inference():
        found = readout.logits(net, x, None)
        features, stored = net(x).features, net(STREAM.inputs.plain(held.x)).features
    classes = {column: stored[held.y == column] for column in (0, 1, 2, 3)}
    assert found.argmax(1).tolist() == [
        naive.nearest(row, {column: rows.tolist() for column, rows in classes.items()}) for row in features.tolist()
    ]
    means = torch.stack([normalize(normalize(rows).mean(0), dim=0) for rows in classes.values()])
    around = torch.cat([means + 0.01, means - 0.01])  # their centroids are the means
    rule = NearestCentroid().fit(around.numpy(), [*classes, *classes])
    assert found.argmax(1).tolist() == rule.predict(normalize(features).numpy()).tolist()
    assert len(set(found.argmax(1).tolist())) == 4


def test_classes_that_were_not_learnt_never_win() -> None:
    part, net = learnt()
    readout = fitted(net, STREAM.tasks[0], part.buffer_examples())
    assert (readout.logits(net, torch.randn(50, 1, 8, 8, generator=generator(0, "x")), None)[:, 2:] == MASKED).all()


def test_a_class_without_exemplars_has_the_mean_of_its_training_examples() -> None:
    """So it is when the network is evaluated before it is pruned: the exemplars of the task are not chosen yet."""
    part, net = learnt()
    readout = fitted(net, STREAM.tasks[1], part.buffer_examples())
    train = STREAM.tasks[1].train
    with net.inference():
        features = normalize(net(STREAM.inputs.plain(train.x)).features)
    for column in (2, 3):
        torch.testing.assert_close(readout.means[column], normalize(features[train.y == column].mean(0), dim=0))
    assert torch.equal(readout.means[:2], fitted(net, STREAM.tasks[0], part.buffer_examples()).means[:2])
    assert readout.known.tolist() == [True] * 4 + [False] * 2
    alone = fitted(net, STREAM.tasks[1], None)
    assert torch.equal(alone.means[2:4], readout.means[2:4])


def test_means_move_with_the_network() -> None:
    part, net = learnt()
    readout = fitted(net, STREAM.tasks[0], part.buffer_examples())
    before = readout.means.clone()
    with torch.no_grad():
        net.stored["backbone.first.bias"].add_(1)
    readout.fit(net, STREAM.tasks[0], part.buffer_examples())
    assert not torch.allclose(readout.means[:2], before[:2])


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_a_plain_network_with_the_folded_head_answers_as_the_readout(backbone: str) -> None:
    net = network(backbone, 8)
    part, _ = learnt(60, net)
    part.end_task(net, STREAM.tasks[1])
    readout = fitted(net, STREAM.tasks[1], part.buffer_examples())
    plain = network(backbone, 8, seed=9)
    folded = readout.folded(net.model.state_dict())
    plain.model.load_state_dict(folded)
    x = STREAM.inputs.plain(torch.cat([task.test.x for task in STREAM.tasks]))
    with net.inference(), plain.inference():
        assert torch.equal(plain(x).logits.argmax(1), readout.logits(net, x, None).argmax(1))
    assert folded["head.weight"].data_ptr() != readout.means.data_ptr()


def test_the_means_are_in_the_state() -> None:
    part, net = learnt()
    readout = fitted(net, STREAM.tasks[0], part.buffer_examples())
    state = readout.state_dict()
    resumed = fitted(network(seed=4), STREAM.tasks[2], None)
    resumed.load_state_dict(deepcopy(state))
    assert torch.equal(resumed.means, readout.means)
    assert torch.equal(resumed.known, readout.known)
    assert resumed.means.device == CPU
    readout.fit(net, STREAM.tasks[1], part.buffer_examples())
    assert state["known"].tolist() == [True] * 2 + [False] * 4, "a saved state does not change with the readout"
