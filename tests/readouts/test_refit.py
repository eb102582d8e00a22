from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from esacl.readouts.examples import balanced
from esacl.readouts.refit import Refit, RefitOptions
from esacl.streams.base import Examples
from tests.builders import context, network, same
from tests.readouts.clouds import STREAM, clouds, remembered


def test_it_is_logistic_regression_whatever_the_size_of_features():
    features, labels = clouds([20, 8, 30])
    readout = Refit(RefitOptions(decay=0.02, iterations=1000), context(STREAM))
    weight, bias, _ = readout.solve(features, labels, 3)
    size = features.square().mean().sqrt()
    theirs = LogisticRegression(C=1 / (0.02 * 58), class_weight="balanced", tol=1e-10, max_iter=10_000)
    theirs.fit((features / size).numpy(), labels.numpy())
    torch.testing.assert_close(weight * size, torch.from_numpy(theirs.coef_), rtol=1e-3, atol=1e-3)
    larger, same_bias, _ = readout.solve(100 * features, labels, 3)
    torch.testing.assert_close(100 * larger, weight, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(same_bias, bias, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("sample", "each"), [(1.0, 4), (2.0, 8), (1e6, 12)])
def test_the_sample_of_the_task_is_as_large_as_an_earlier_class(sample, each):
    found = balanced(context(STREAM), STREAM.tasks[1], remembered(0, 1, 2, each=4), sample)
    assert found.y.bincount().tolist() == [4, 4, each, each], "what is remembered of the task is not used twice"
    again = balanced(context(STREAM), STREAM.tasks[1], remembered(0, 1, 2, each=4), sample)
    assert torch.equal(found.x, again.x)
    other = balanced(context(STREAM, seed=1), STREAM.tasks[1], remembered(0, 1, 2, each=4), sample)
    assert not torch.equal(found.x, other.x)


def test_in_the_first_task_there_is_nothing_to_balance_with():
    found = balanced(context(STREAM), STREAM.tasks[0], remembered(0, 1), 1.0)
    assert found.y.bincount().tolist() == [12, 12]


def test_classes_that_come_back_keep_their_earlier_looks():
    held, task = remembered(0, 1, each=4), STREAM.tasks[0]
    inverted = Examples(255 - task.train.x, task.train.y)
    found = balanced(context(STREAM), replace(task, index=1, train=inverted), held, 1.0)
    assert found.y.bincount().tolist() == [8, 8], "both looks"


def test_the_network_goes_on_with_the_head_it_has():
    net = network()
    before = {name: value.detach().clone() for name, value in net.model.state_dict().items()}
    readout = Refit(RefitOptions(), context(STREAM))
    readout.attach(net)
    readout.fit(net, STREAM.tasks[0], None)
    assert same(before, net.model.state_dict())
    folded = readout.folded(net.model.state_dict())
    x = STREAM.inputs.plain(STREAM.tasks[0].test.x)
    answers = readout.logits(net, x, None)
    net.model.load_state_dict(folded)
    assert torch.equal(net(x).logits, answers)
