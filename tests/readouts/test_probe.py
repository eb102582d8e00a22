from typing import Any

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from esacl.columns import MASKED
from esacl.nets import Network
from esacl.readouts.logistic import fit_logistic
from esacl.readouts.probe import LinearProbe, ProbeOptions
from esacl.rng import generator
from esacl.streams.base import Examples
from tests.builders import context, finish, network, same, trainer, weights
from tests.readouts.clouds import STREAM, clouds, remembered
from tests.reference import probe as naive


@pytest.mark.parametrize("counts", [[20, 20, 20], [60, 3, 10, 5], [2, 40, 40]])
@pytest.mark.parametrize("decay", [0.001, 0.1])
def test_the_probe_is_scikit_learns_balanced_logistic_regression(counts: list[int], decay: float) -> None:
    features, labels = clouds(counts)
    weight, bias, _ = fit_logistic(features, labels, decay, 1000)
    theirs = LogisticRegression(C=1 / (decay * len(labels)), class_weight="balanced", tol=1e-10, max_iter=10_000)
    theirs.fit(features.numpy(), labels.numpy())
    chances = (features @ weight.T + bias).softmax(1)
    torch.testing.assert_close(chances, torch.from_numpy(theirs.predict_proba(features.numpy())), rtol=0, atol=1e-4)
    torch.testing.assert_close(weight, torch.from_numpy(theirs.coef_), rtol=1e-3, atol=1e-3)


def test_two_classes_share_one_direction() -> None:
    """A sigmoid's weights are the difference of a softmax's two, so their penalty is half of what C says."""
    features, labels = clouds([30, 6])
    weight, bias, _ = fit_logistic(features, labels, 0.01, 1000)
    theirs = LogisticRegression(C=2 / (0.01 * 36), class_weight="balanced", tol=1e-10, max_iter=10_000)
    theirs.fit(features.numpy(), labels.numpy())
    torch.testing.assert_close(weight[1] - weight[0], torch.from_numpy(theirs.coef_[0]), rtol=1e-3, atol=1e-3)
    assert (bias[1] - bias[0]).item() == pytest.approx(theirs.intercept_[0], abs=1e-3)


def test_it_is_the_minimum_of_a_loss_in_which_classes_weigh_the_same() -> None:
    features, labels = clouds([12, 2, 5])
    weight, bias, macs = fit_logistic(features, labels, 0.05, 1000)
    at = [value.clone().requires_grad_() for value in (weight, bias)]
    lowest = naive.loss(at[0], at[1], features, labels.tolist(), 0.05)
    for gradient in torch.autograd.grad(lowest, at):
        assert gradient.abs().max() < 1e-5
    draw = generator(1, "moves")
    for _ in range(5):
        moved = [value + 0.05 * torch.randn(value.shape, generator=draw, dtype=torch.float64) for value in at]
        assert naive.loss(moved[0], moved[1], features, labels.tolist(), 0.05) > lowest
    assert macs % (3 * features.numel() * 3) == 0
    assert 1 < macs // (3 * features.numel() * 3) < 200


def test_the_number_of_iterations_is_a_limit() -> None:
    features, labels = clouds([12, 12, 12])
    assert fit_logistic(features, labels, 0.0001, 3)[2] < fit_logistic(features, labels, 0.0001, 300)[2]


def fitted(net: Network, task: int = 1, remembered: Examples | None = None, **options: Any) -> LinearProbe:
    readout = LinearProbe(ProbeOptions(**options), context(STREAM))
    readout.attach(net)
    readout.fit(net, STREAM.tasks[task], remembered)
    return readout


def test_it_is_fitted_on_the_task_and_on_what_is_remembered_of_earlier_ones() -> None:
    net, held, task = network("cnn", 4), remembered(0, 1), STREAM.tasks[1]
    net.model.train()
    readout = fitted(net, 1, held, decay=0.02)
    assert net.model.training
    images, labels = torch.cat([task.train.x, held.x]), torch.cat([task.train.y, held.y])
    with net.inference():
        features = net(STREAM.inputs.plain(images)).features.double()
    weight, bias, _ = fit_logistic(features, labels, 0.02, 200)
    torch.testing.assert_close(readout.weight[:4], weight.float())
    torch.testing.assert_close(readout.bias[:4], bias.float())


def test_remembered_examples_of_the_present_task_are_not_used_twice() -> None:
    net = network()
    found = fitted(net, 1, remembered(0, 1, 2, 3)).state_dict()
    assert same(found, fitted(net, 1, remembered(0, 1)).state_dict())
    assert not same(found, fitted(net, 1, None).state_dict())


def test_classes_that_were_not_seen_never_win() -> None:
    net = network()
    readout = fitted(net, 1, remembered(0, 1))
    logits = readout.logits(net, 3 * torch.randn(200, 1, 8, 8, generator=generator(0, "x")), None)
    assert (logits[:, 4:] == MASKED).all()
    assert set(logits.argmax(1).tolist()) <= {0, 1, 2, 3}
    readout.fit(net, STREAM.tasks[2], remembered(0, 1, 2, 3))
    assert (readout.logits(net, STREAM.inputs.plain(STREAM.tasks[2].test.x), None) > MASKED / 2).all()


def test_the_network_stays_as_it_is() -> None:
    net = network("cnn", 4)
    before = weights(net)
    fitted(net, 0)
    assert same(before, weights(net))
    assert all(value.grad is None for value in net.stored.values())


def test_a_probe_that_an_earlier_version_left_in_the_head_answers() -> None:
    net = network()
    readout = fitted(net, 0)
    readout.load_state_dict({})
    x = STREAM.inputs.plain(STREAM.tasks[0].test.x)
    assert torch.equal(readout.logits(net, x, None), net(x).logits)


def test_features_and_fitting_are_charged() -> None:
    net = network()
    fitted(net, 1, remembered(0, 1))
    examples = 24 + 6
    with net.inference("look"):
        images = torch.cat([STREAM.tasks[1].train.x, remembered(0, 1).x])
        features = net(STREAM.inputs.plain(images)).features.double()
    labels = torch.cat([STREAM.tasks[1].train.y, remembered(0, 1).y])
    solving = fit_logistic(features, labels, 0.001, 200)[2]
    expected = examples * net.meter.dense + solving
    assert net.meter.executed_macs["train"] == expected


def test_after_a_run_the_folded_network_answers_as_it_was_evaluated() -> None:
    training = finish(trainer("co2l", {"objective": {"buffer": 12}}))
    net, found = training.net, []
    net.model.load_state_dict(training.parts.readout.folded(net.effective_state()))
    for task in training.stream.tasks:
        with net.inference():
            logits = net(STREAM.inputs.plain(task.test.x)).logits
        found.append((logits.argmax(1) == task.test.y).double().mean().item())
    assert training.rows[-1].class_il == pytest.approx(found)
