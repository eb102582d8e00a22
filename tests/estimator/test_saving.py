"""A saved classifier is whole, safe to open, and goes on as if it had never been saved."""

import os

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError

from esacl import ContinualClassifier
from esacl.deploy.opening import open_model
from esacl.errors import CheckpointError
from esacl.methods import METHODS
from esacl.training.checkpoint import pack, unpack
from tests.estimator.samples import features, images, small

JOINT = {name for name, row in METHODS.items() if getattr(row.part("objective"), "joint", False)}
TOLD = {name for name, row in METHODS.items() if row.needs_task_id}
USABLE = sorted(set(METHODS) - JOINT - TOLD)


@pytest.mark.parametrize("method", USABLE)
def test_every_method_that_need_not_be_told_the_task_goes_on_after_loading_to_the_same_bits(method, tmp_path):
    model = small(method, epochs=4).partial_fit(*features(range(2))).partial_fit(*features(range(2, 4)))
    model.save(tmp_path / "model.esacl")
    twin = ContinualClassifier.load(tmp_path / "model.esacl")
    x, y = features(range(3, 6), seed=1)  # more examples of an old class, and two new ones
    assert np.array_equal(twin.predict_proba(x), model.predict_proba(x))
    chances = model.partial_fit(x, y).predict_proba(x)
    assert np.array_equal(twin.partial_fit(x, y).predict_proba(x), chances)
    assert_allclose(chances.sum(1), 1)
    assert np.array_equal(model.predict(x), model.classes_[chances.argmax(1)])
    assert np.isin(model.predict(x), y).mean() > 0.5  # the newest are known, whatever was forgotten
    assert (twin.n_tasks_, twin.classes_.tolist()) == (3, list(range(6)))


@pytest.mark.parametrize("backbone", ["cnn", "resnet10"])
def test_so_does_one_with_convolutions_and_names_for_labels(backbone, tmp_path):
    model = small("esacl-der++", backbone=backbone, width=4, epochs=1, random_state=np.random.RandomState(3))
    x, y = images(range(4))
    x = x.repeat(2, 2).repeat(2, 3)
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    model.partial_fit(x[y < 2], names[y < 2]).save(tmp_path / "model")
    twin = ContinualClassifier.load(str(tmp_path / "model"))
    for one in (model, twin):
        one.partial_fit(x[y > 1], names[y > 1])
    assert np.array_equal(twin.predict_proba(x), model.predict_proba(x))
    assert twin.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert twin.classes_.dtype == model.classes_.dtype


def test_parameters_and_what_was_learnt_come_back(tmp_path):
    x, y = features(range(2))
    model = small(buffer=np.int64(7), lr=0.02, options={"update": {"momentum": np.float64(0.5)}}, epochs=1)
    model.partial_fit(x, y, classes=range(4)).save(tmp_path / "m")
    twin = ContinualClassifier.load(tmp_path / "m")
    assert twin.get_params() == model.get_params()
    assert twin.classes_.tolist() == [0, 1, 2, 3]
    assert twin.n_features_in_ == 12
    assert twin.density_ == model.density_


def test_names_of_features_come_back(tmp_path):
    model = small("er", epochs=1).fit(*features(range(2)))
    model.feature_names_in_ = np.array([f"f{number}" for number in range(12)], dtype=object)
    model.save(tmp_path / "m")
    assert ContinualClassifier.load(tmp_path / "m").feature_names_in_.tolist() == model.feature_names_in_.tolist()


def test_a_classifier_that_has_learnt_nothing_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_save_that_fails_leaves_the_file_of_before(tmp_path, monkeypatch):
    model = small("er", epochs=1).fit(*features(range(2)))
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        model.partial_fit(*features(range(2, 4))).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_damaged_and_foreign_files_are_refused_with_what_to_do(tmp_path):
    model = small("er", epochs=1).fit(*features(range(2)))
    whole = tmp_path / "whole"
    model.save(whole)
    data = bytearray(whole.read_bytes())
    data[-9] ^= 1
    (tmp_path / "flipped").write_bytes(data)
    (tmp_path / "short").write_bytes(whole.read_bytes()[:-20])
    (tmp_path / "text").write_text("hello")
    save_file({}, tmp_path / "foreign")
    state = unpack(whole, "esacl-classifier-1")
    (tmp_path / "newer").write_bytes(pack(state, "esacl-classifier-2"))
    (tmp_path / "run").write_bytes(pack(state))
    (tmp_path / "lacking").write_bytes(pack({"params": {}}, "esacl-classifier-1"))
    (tmp_path / "strange").write_bytes(pack({**state, "params": {**state["params"], "depth": 3}}, "esacl-classifier-1"))
    expected = {
        "flipped": "damaged",
        "short": "cannot be read",
        "text": "cannot be read",
        "absent": "cannot be read",
        "foreign": "not a saved classifier",
        "newer": "format 'esacl-classifier-2', not 'esacl-classifier-1'",
        "run": "format 'esacl-checkpoint-1'",
        "lacking": "does not hold what esacl",
        "strange": "saved by another version",
    }
    for name, match in expected.items():
        with pytest.raises(CheckpointError, match=match):
            ContinualClassifier.load(tmp_path / name)


@pytest.mark.parametrize("method", ["grow-er", "grow-icarl"])
def test_a_network_that_outgrew_its_plan_goes_on_after_loading_to_the_same_bits(method, tmp_path):
    model = small(method, buffer=40, expected_tasks=1)
    for start in (0, 2, 4):
        model.partial_fit(*features(range(start, start + 2)))
    model.save(tmp_path / "model.esacl")
    twin = ContinualClassifier.load(tmp_path / "model.esacl")
    x, y = features(range(6, 8))
    chances = model.partial_fit(x, y).predict_proba(x)
    assert np.array_equal(twin.partial_fit(x, y).predict_proba(x), chances)
    opened = open_model(tmp_path / "model.esacl")
    assert opened.weights["head.weight"].shape == (6, 3 * 24)
    with torch.no_grad():
        answered = opened.answering()(torch.from_numpy(features(range(6))[0]).float())[0]
    earlier = ContinualClassifier.load(tmp_path / "model.esacl").predict_proba(features(range(6))[0])
    assert np.array_equal(answered.argmax(1).numpy(), earlier.argmax(1))


@pytest.mark.parametrize(("replay", "expected"), [("none", None), ("branch", None), ("none", 1), ("branch", 2)])
def test_a_network_that_grows_on_answers_in_two_steps_here_and_after_opening(replay, expected, tmp_path):
    """Geometrically where nobody knows how many tasks will come, wider where more came than were planned."""
    model = small("grow-er", buffer=40, expected_tasks=expected, options={"objective": {"replay": replay}})
    widths = []
    for start in (0, 2, 4, 6):
        model.partial_fit(*features(range(start, start + 2)))
        widths.append(model._learner._trainer.net.stored["head.weight"].shape[1])
    assert (widths[0] < widths[-1]) == (expected is not None)
    x, y = features(range(8), seed=4)
    assert model.score(x, y) > 0.6
    model.save(tmp_path / "model.esacl")
    with torch.no_grad():
        answered = open_model(tmp_path / "model.esacl").answering()(torch.from_numpy(x).float())[0]
    np.testing.assert_allclose(answered.numpy(), model.predict_proba(x), atol=1e-4)
