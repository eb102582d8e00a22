"""A network that lost channels is used like any other: answers, exports, further tasks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from esacl import Config, ContinualClassifier, resume, run
from esacl.deploy import open_model
from esacl.deploy.graph import write_onnx
from esacl.deploy.summary import summary
from esacl.deploy.weights import write_export
from esacl.errors import RunError
from esacl.landscape import landscape
from esacl.runner import start
from esacl.training.events import TaskDone
from tests.builders import same
from tests.estimator.samples import features, small
from tests.nets.own_nets import Separable, made

CHANNELS = {"sparsity": {"unit": "channel", "level": 0.8}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run of which a fifth of the weights is left."""
    out = tmp_path_factory.mktemp("narrow") / "run"
    settings = {"backbone": "cnn", "width": 8, "epochs": 1, "limit_per_class": 20, "buffer": 20}
    config = Config.of(method="esacl-er", **settings)
    run(replace(config, options={**config.options, **CHANNELS}), out)
    return out


def test_the_saved_model_is_small_and_dense(place):
    found = summary(open_model(place), place)
    assert found.density == 1
    assert found.weights == sum(layer.weights for layer in found.layers) <= 0.2 * (8 * 9 + 16 * 8 * 9 + 32 * 16 * 9)


def test_a_network_of_your_own_loses_channels_too(tmp_path):
    config = Config.of(method="esacl-er", epochs=1, limit_per_class=20, buffer=20)
    config = replace(config, options={**config.options, **CHANNELS})
    with start(config, tmp_path / "run", backbone=made(Separable)) as half:
        next(event for event in half.events() if isinstance(event, TaskDone) and event.task == 1)
    found = resume(tmp_path / "run", backbone=made(Separable))
    assert found.density <= 0.5  # of so few channels, one of each group stays
    model = open_model(tmp_path / "run", backbone=made(Separable))
    assert len(model.weights["backbone.layers.6.weight"]) < 16
    assert model.answering()(torch.rand(2, 1, 8, 8))[1].isfinite().all()


def test_exports_answer_as_the_model_does(place, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model = open_model(place)
    write_export(tmp_path / "m.safetensors", model, sparse=False)
    assert same(open_model(tmp_path / "m.safetensors").weights, model.weights)
    write_onnx(tmp_path / "m.onnx", model)
    x = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    with torch.no_grad():
        expected = model.answering()(torch.from_numpy(x))[0]
    answered = runtime.InferenceSession(tmp_path / "m.onnx").run(["probabilities"], {"images": x})[0]
    np.testing.assert_allclose(answered, expected, atol=1e-5)


def test_there_is_no_landscape_between_networks_of_two_widths(place):
    with pytest.raises(RunError, match=r"removed whole channels.*sparsity.unit = 'weight'"):
        landscape(place, steps=3, examples=8)


def test_a_classifier_goes_on_after_loading_to_the_same_bits(tmp_path):
    model = small("esacl-er", options=CHANNELS, epochs=2).partial_fit(*features(range(2)))
    model.save(tmp_path / "model.esacl")
    twin = ContinualClassifier.load(tmp_path / "model.esacl")
    x, y = features(range(2, 4))
    chances = model.partial_fit(x, y).predict_proba(x)
    assert np.array_equal(twin.partial_fit(x, y).predict_proba(x), chances)
    assert model.density_ <= 0.2
