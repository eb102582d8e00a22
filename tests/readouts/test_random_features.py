import numpy as np
import pytest
import torch
from sklearn.linear_model import RidgeClassifierCV

import esacl as library
from esacl.config import Config
from esacl.deploy.opening import open_model
from esacl.deploy.weights import load_sparse
from esacl.nets.expansion import SEED, RandomExpansion
from esacl.readouts.random_features import STRENGTHS, RandomFeatures, RandomFeaturesOptions, ridge
from tests.builders import context, network
from tests.cli.commands import esacl
from tests.readouts.clouds import STREAM, clouds, remembered
from tests.reference import ridge as naive


def targets_of(labels):
    return torch.where(labels[:, None] == torch.arange(int(labels.max()) + 1), 1.0, -1.0).double()


@pytest.mark.parametrize("size", [3, 40])
def test_the_strength_is_the_one_with_the_least_error_of_leave_one_out(size):
    features, labels = clouds([9, 4, 7], size)
    targets = targets_of(labels)
    weight, bias, strength = ridge(features, targets)
    centred = features - features.mean(0)
    strengths = (STRENGTHS * centred.square().sum(1).mean()).tolist()
    x, y = features.numpy(), targets.numpy()
    errors = {each: naive.left_out(x, y, each) for each in strengths}
    near = min(strengths, key=lambda each: abs(each - strength))
    theirs = RidgeClassifierCV(alphas=strengths).fit(x, labels.numpy())
    assert theirs.alpha_ == pytest.approx(strength)
    np.testing.assert_allclose(weight.numpy(), theirs.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(bias.numpy(), theirs.intercept_, rtol=1e-6, atol=1e-9)
    exact = naive.ridge(x, y, strength)
    np.testing.assert_allclose(weight.numpy(), exact[0], rtol=1e-6, atol=1e-9)
    assert errors[near] <= 1.05 * min(errors.values()), "leaving one out moves the means a little"


def test_the_matrix_is_known_by_its_seed_and_never_stored():
    one, other = RandomExpansion(5, 16, 30), RandomExpansion(5, 16, 30)
    assert torch.equal(one.projection, other.projection)
    assert not torch.equal(one.projection, RandomExpansion(6, 16, 30).projection)
    assert set(one.state_dict()) == {"seed"}
    blank = RandomExpansion(0, 16, 30)
    blank.load_state_dict(one.state_dict())
    blank.draw()
    assert torch.equal(blank.projection, one.projection)


def test_its_state_is_its_head_and_its_cost_is_charged():
    net = network()
    readout = RandomFeatures(RandomFeaturesOptions(size=50), context(STREAM))
    readout.attach(net)
    readout.fit(net, STREAM.tasks[1], remembered(0, 1, each=5))
    assert set(readout.state_dict()) == {"weight", "bias"}
    solving = net.meter.executed_macs["train"] - 20 * net.meter.dense
    assert solving == 20 * 16 * 50 + 20 * 20 * (50 + 9 * 20) + 20 * 50 * 4
    assert readout.folded(net.model.state_dict())[SEED].dtype == torch.int64


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "run"
    settings = Config.of(method="er", readout="random-features", buffer=40, epochs=1, limit_per_class=20, width=16)
    library.run(settings, place)
    return place


def test_a_saved_model_answers_as_it_was_evaluated(trained, tmp_path):
    """Opened, exported and opened again, and cut to the columns of one task."""
    model = open_model(trained)
    esacl("export", trained, "--format", "safetensors", "--out", tmp_path / "model.safetensors")
    again = open_model(tmp_path / "model.safetensors")
    stream = library.open_stream(Config.of(limit_per_class=20).stream)
    right = []
    for task in stream.tasks:
        logits = model.answering()(task.test.x.float() / 255)[1]
        assert torch.equal(logits, again.answering()(task.test.x.float() / 255)[1])
        right.append((logits.argmax(1) == task.test.y).double().mean().item())
        told = model.for_task(task.index + 1).answering()(task.test.x.float() / 255)[1]
        torch.testing.assert_close(told, logits[:, list(task.classes)])
    assert right == pytest.approx(model.accuracy["class_il"])
    assert SEED in load_sparse(tmp_path / "model.safetensors")
