"""Readouts of features that never move: one look at each image, sums instead of a memory."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from esacl.config import Config, NetConfig, PartsConfig
from esacl.errors import ConfigError
from esacl.methods import method, resolve
from esacl.nets.freezing import freeze
from esacl.readouts.lda import Lda
from esacl.readouts.moments import Moments
from esacl.readouts.nearest_mean import NearestMean
from esacl.readouts.random_features import STRENGTHS, RandomFeatures, ridge_of
from esacl.streams.base import Examples
from esacl.training.checkpoint import fingerprint
from tests.builders import context, network
from tests.readouts.clouds import STREAM, clouds
from tests.reference import ridge as naive

KINDS = [NearestMean, Lda, RandomFeatures]


def still_network():
    net = network()
    freeze(net.model, "all", net.shape)
    return type(net)(net.model, net.shape, net.device)


def attached(kind, net, memory=False):
    options = kind.Options(size=30) if kind is RandomFeatures else kind.Options()
    made = kind(options, context(STREAM, memory=memory))
    made.attach(net)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_task_after_task_it_answers_as_if_all_images_had_come_together(kind):
    net = still_network()
    one, other = attached(kind, net), attached(kind, net)
    for task in STREAM.tasks:
        one.fit(net, task, None)
    whole = STREAM.joint().stages[0]
    order = torch.randperm(len(whole.train), generator=torch.Generator().manual_seed(0))
    mixed = type(whole)(0, whole.classes, whole.train.take(order), whole.validation, whole.test)
    other.fit(net, mixed, None)
    x = STREAM.inputs.plain(STREAM.tasks[0].test.x)
    assert torch.allclose(one.logits(net, x, None), other.logits(net, x, None), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_from_its_state_to_the_same_bits(kind):
    net = still_network()
    whole, half = attached(kind, net), attached(kind, net)
    whole.fit(net, STREAM.tasks[0], None)
    half.load_state_dict(deepcopy(whole.state_dict()))
    for made in (whole, half):
        made.fit(net, STREAM.tasks[1], None)
    assert fingerprint(whole.state_dict()) == fingerprint(half.state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_returns_is_added_to_what_was_seen_of_it(kind):
    net = still_network()
    one, other = attached(kind, net), attached(kind, net)
    task = STREAM.tasks[0]
    halves = [task.train.take(torch.arange(start, len(task.train), 2)) for start in (0, 1)]
    for part in halves:
        one.fit(net, type(task)(0, task.classes, part, task.validation, task.test), None)
    other.fit(net, task, None)
    x = STREAM.inputs.plain(task.test.x)
    assert torch.allclose(one.logits(net, x, None), other.logits(net, x, None), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_that_moves_and_no_memory_are_refused_with_the_remedy(kind):
    with pytest.raises(ConfigError, match=r"Freeze the network \(net.freeze = 'all'\)"):
        attached(kind, network())


@pytest.mark.parametrize(("counts", "size"), [([9, 4, 7], 3), ([9, 4, 7], 40), ([30, 1], 6)])
def test_ridge_from_sums_is_the_naive_one_at_the_strength_with_the_least_generalised_error(counts, size):
    features, labels = clouds(counts, size)
    moments = Moments(len(counts) + 1, size)  # of one class there is nothing yet
    moments.add(features, labels)
    weight, bias, strength = ridge_of(moments, torch.arange(len(counts)))
    x, y = features.numpy(), np.where(labels[:, None].numpy() == np.arange(len(counts)), 1.0, -1.0)
    exact = naive.ridge(x, y, strength)
    np.testing.assert_allclose(weight.numpy(), exact[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(bias.numpy(), exact[1], rtol=1e-6, atol=1e-8)
    scatter = ((x - x.mean(0)) ** 2).sum() / len(x)
    errors = [naive.generalised(x, y, float(each) * scatter) for each in STRENGTHS]
    assert naive.generalised(x, y, strength) == pytest.approx(min(errors), rel=1e-6)


def test_few_images_of_a_class_are_enough():
    net = still_network()
    task = STREAM.tasks[0]
    rows = torch.cat([(task.train.y == column).nonzero()[:1, 0] for column in task.classes])
    few = Examples(task.train.x[rows], task.train.y[rows])
    for kind in KINDS:
        made = attached(kind, net)
        made.fit(net, type(task)(0, task.classes, few, task.validation, task.test), None)
        answers = made.logits(net, STREAM.inputs.plain(few.x), None).argmax(1)
        assert answers.tolist() == few.y.tolist()


def test_methods_without_training_freeze_all_and_refuse_what_cannot_be():
    frozen = resolve(Config("slda"), STREAM)
    assert frozen.net.freeze == "all"
    with pytest.raises(ConfigError, match=r"trains nothing.*freeze = .none. was given. Leave it out"):
        resolve(Config("slda", net=NetConfig(freeze="none")), STREAM)
    with pytest.raises(ConfigError, match="trains nothing, so AdamUpdate has nothing to do"):
        resolve(Config("ncm", parts=PartsConfig(update="adam")), STREAM)
    with pytest.raises(ConfigError, match="ncm trains nothing, so there is nothing that esacl could do"):
        method("esacl-ncm")
