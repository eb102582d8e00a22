from copy import deepcopy

import numpy as np
import pytest
import torch
from sklearn.covariance import oas as their_oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import nn

from esacl.errors import ConfigError
from esacl.nets import Network
from esacl.nets.features import features_move
from esacl.nets.model import Model
from esacl.readouts.lda import Lda, LdaOptions, Moments, discriminants, oas
from esacl.readouts.probe import LinearProbe
from esacl.readouts.refit import Refit
from tests.builders import CPU, context, network, same
from tests.readouts.clouds import STREAM, clouds, remembered
from tests.reference import lda as naive


def moments(features, labels):
    found = Moments(int(labels.max()) + 1, features.shape[1])
    found.add(features, labels)
    return found


def centred(features, labels):
    return torch.cat([features[labels == label] - features[labels == label].mean(0) for label in labels.unique()])


@pytest.mark.parametrize("counts", [[20, 20, 20], [40, 3, 10, 5], [3, 2]])
def test_it_is_scikit_learns_lda_with_the_share_that_oas_gives(counts):
    features, labels = clouds(counts, size=6)
    found = moments(features, labels)
    weight, bias = discriminants(found.counts, found.sums, found.products)
    within = centred(features, labels)
    share = their_oas(within.numpy(), assume_centered=True)[1]
    assert oas(within.T @ within / len(within), len(within)) == pytest.approx(share)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=share).fit(features.numpy(), labels.numpy())
    ours = weight.numpy()
    intercept = theirs.intercept_ - np.log(theirs.priors_) if len(counts) > 2 else None
    if len(counts) == 2:
        np.testing.assert_allclose(ours[1] - ours[0], theirs.coef_[0], rtol=1e-6)
    else:
        np.testing.assert_allclose(ours, theirs.coef_, rtol=1e-6)
        np.testing.assert_allclose(bias.numpy(), intercept, rtol=1e-6)


def test_it_is_what_one_example_after_the_other_gives():
    features, labels = clouds([9, 4, 6])
    found = moments(features, labels)
    within = centred(features, labels)
    expected = naive.discriminants(features.tolist(), labels.tolist(), oas(within.T @ within / 19, 19))
    for ours, theirs in zip(discriminants(found.counts, found.sums, found.products), expected):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_of_the_identity_can_be_given(share):
    features, labels = clouds([9, 4, 6])
    found = moments(features, labels)
    expected = naive.discriminants(features.tolist(), labels.tolist(), share)
    for ours, theirs in zip(discriminants(found.counts, found.sums, found.products, share), expected):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)


def test_features_that_are_all_the_same_give_finite_answers():
    features, labels = torch.ones(6, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 1])
    found = moments(features, labels)
    for values in discriminants(found.counts, found.sums, found.products):
        assert values.isfinite().all()


def still_network() -> Network:
    """One whose features never move: its only weights are those of the head."""
    model = Model(nn.Flatten(), 64, 6, (1, 8, 8))
    return Network(model, (1, 8, 8), CPU)


def readout(net, **known):
    made = Lda(LdaOptions(), context(STREAM, **known))
    made.attach(net)
    return made


def test_on_still_features_task_after_task_is_all_tasks_at_once():
    net = still_network()
    assert not features_move(net)
    made = readout(net, memory=False)
    for task in STREAM.tasks:
        made.fit(net, task, None)
    whole = readout(net, memory=False)
    whole.fit(net, STREAM.joint().stages[0], None)
    torch.testing.assert_close(made.weight, whole.weight, rtol=1e-3, atol=1e-6)
    resumed = readout(still_network(), memory=False)
    resumed.load_state_dict(deepcopy(made.state_dict()))
    assert same(resumed.moments.state_dict(), made.moments.state_dict())
    assert "moments" not in readout(network()).state_dict(), "nothing is kept of features that move"


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_a_network_that_moves_needs_a_memory(backbone):
    net = network(backbone, 4)
    assert features_move(net)
    with pytest.raises(ConfigError, match="remembers no examples of earlier tasks, and the network moves on"):
        readout(net, memory=False)


@pytest.mark.parametrize("kind", [Refit, LinearProbe])
def test_readouts_fitted_anew_need_a_memory_on_still_features_too(kind):
    made = kind(kind.Options(), context(STREAM, memory=False))
    with pytest.raises(ConfigError, match=r"remembers no examples of earlier tasks\. .*'lda'"):
        made.attach(still_network())


def test_statistics_of_batchnorm_move_features_too():
    net = network("cnn", 4)
    net.model.backbone.requires_grad_(False)
    assert features_move(net)
    net.frozen_statistics = True
    assert not features_move(net)


def test_it_is_fitted_on_the_memory_and_as_many_images_of_the_task():
    net = network()
    made = readout(net)
    before = net.meter.executed_macs.get("train", 0)
    made.fit(net, STREAM.tasks[1], remembered(0, 1, each=5))
    charged = net.meter.executed_macs["train"] - before
    assert charged > 20 * net.meter.dense, "five images of each of four classes, and the solution"
    assert (charged - 20 * net.meter.dense) < 20 * net.meter.dense
