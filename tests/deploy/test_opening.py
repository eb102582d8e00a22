"""A model answers the same wherever it is opened from."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from esacl import ContinualClassifier
from esacl.deploy import open_model
from esacl.deploy.summary import summary
from esacl.errors import CheckpointError, ConfigError, RunError
from esacl.runner import reopen
from tests.builders import stream
from tests.deploy.models import classifier, features, finished, pictures, saved

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"))


def probabilities(trained, x):
    with torch.no_grad():
        return trained.answering()(torch.as_tensor(x, dtype=torch.float32))[0].numpy()


def test_a_saved_classifier_answers_as_it_does_in_python(model):
    x, y = pictures(range(5), seed=1)
    opened = open_model(model)
    expected = ContinualClassifier.load(model).predict_proba(x)
    np.testing.assert_allclose(probabilities(opened, x / 255), expected, atol=TOLERANCE)
    assert (np.array(opened.classes)[expected.argmax(1)] == y).mean() > 0.9


def test_features_keep_the_scale_they_were_learnt_in(tmp_path):
    path = saved(tmp_path, features)
    x, _ = features(range(5), seed=1)
    expected = ContinualClassifier.load(path).predict_proba(x)
    np.testing.assert_allclose(probabilities(open_model(path), x), expected, atol=TOLERANCE)


def test_classes_that_were_named_but_not_learnt_are_left_out(tmp_path):
    x, y = pictures(range(2))
    learner = ContinualClassifier(epochs=1, random_state=0).partial_fit(x, y, classes=["aardvark", "ant", "bee"])
    learner.save(tmp_path / "m")
    assert open_model(tmp_path / "m").classes == ("ant", "bee")


@pytest.mark.parametrize("method", ["er", "packnet", "wsn"])
def test_a_run_answers_every_task_as_it_did_when_it_ended(tmp_path, method):
    of = stream()
    directory = finished(tmp_path, method, of)
    opened = open_model(directory)
    with reopen(directory, of) as run:
        net = run.trainer.net
        for number, task in enumerate(of.tasks, start=1):
            with net.inference():
                answered = run.trainer.parts.readout.logits(net, of.inputs.plain(task.test.x), task.index)
            logits = answered[:, list(task.classes)]
            told = opened.for_task(number)
            np.testing.assert_allclose(probabilities(told, task.test.x / 255), logits.softmax(1), atol=TOLERANCE)
            assert told.classes == tuple(of.class_names[column] for column in task.classes)
    shares = json.loads((directory / "results.json").read_text())
    assert summary(opened, directory).density == pytest.approx(shares["density"])
    assert [task.task_il for task in summary(opened, directory).tasks] == shares["matrix"]["task_il"][-1]


def test_a_method_that_must_be_told_the_task_says_so(tmp_path):
    opened = open_model(finished(tmp_path, "packnet"))
    with pytest.raises(ConfigError, match=r"packnet answers with other weights .* --task N, with N from 1 to 3"):
        opened.for_task(None)
    with pytest.raises(ConfigError, match=r"no task 4\. Allowed: 1 to 3"):
        opened.for_task(4)


def test_a_run_that_did_not_write_its_scale_down_is_read_by_its_data(tmp_path):
    from esacl import Config, run

    run(Config.of(epochs=1, limit_per_class=8), tmp_path / "run")
    before = open_model(tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["esacl"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del about["inputs"], about["tasks"], about["sha256"]
    save_file(tensors, path, {"esacl": json.dumps(about)})
    with pytest.warns(UserWarning, match="no digest"):
        after = open_model(tmp_path / "run")
    assert (after.scale, after.tasks, after.classes) == (before.scale, before.tasks, before.classes)


def test_what_is_no_model_is_refused_with_what_would_be_one(tmp_path):
    (tmp_path / "text").write_text("no model")
    save_file({"a": torch.zeros(1)}, tmp_path / "foreign")
    for name in ("text", "foreign", "missing"):
        with pytest.raises(CheckpointError, match="ContinualClassifier"):
            open_model(tmp_path / name)
    with pytest.raises(RunError, match="no run in"):
        open_model(tmp_path)


def test_the_summary_counts_the_weights_in_use_layer_by_layer(model):
    found = summary(open_model(model), model)
    learner = ContinualClassifier.load(model)
    assert found.density == pytest.approx(learner.density_)
    assert (
        found.weights_in_use == sum(layer.in_use for layer in found.layers) == round(learner.density_ * found.weights)
    )
    assert [task.classes for task in found.tasks] == [("ant", "bee", "cat"), ("dog", "emu")]
    assert found.bytes == model.stat().st_size
    assert json.loads(json.dumps(found.to_json()))["input"]["kind"] == "bytes"
    assert asdict(found)["parameters"] > found.weights


def test_a_readout_of_its_own_gives_the_same_classes(tmp_path):
    learner = classifier(method="icarl", expected_tasks=None)
    learner.save(tmp_path / "m")
    x, _ = pictures(range(5), seed=1)
    answers = np.array(open_model(tmp_path / "m").classes)[probabilities(open_model(tmp_path / "m"), x / 255).argmax(1)]
    assert (answers == learner.predict(x)).all()
