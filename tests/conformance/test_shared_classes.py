"""Every method on tasks that share classes: it runs, or is refused with the reason."""

from dataclasses import replace

import pytest
import torch

import esacl
from esacl.config import StreamConfig
from esacl.errors import ConfigError
from esacl.methods import METHODS
from esacl.streams import as_stream, open_stream
from tests.builders import finish, trainer
from tests.resuming import assert_resumes

HOLDING = {"packnet", "wsn", "nispa"}
QUICK = {"epochs": 1, "batch_size": 16, "width": 16, "threads": 1}


@pytest.fixture
def known():
    """The methods themselves, without the toys of this folder."""


@pytest.fixture(scope="module")
def rotated():
    return open_stream(StreamConfig("rotated-digits", tasks=3, limit_per_class=8))


@pytest.fixture(scope="module")
def blurred():
    return open_stream(StreamConfig("split-digits", tasks=2, limit_per_class=10, blur=0.3))


def settings(name, **more):
    small = {"buffer": 20} if "buffer" in METHODS[name].options("objective") else {}
    return esacl.Config.of(method=name, **QUICK, **small, **more)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_learns_the_same_classes_in_new_looks_or_says_why_not(name, rotated, tmp_path):
    if name in HOLDING:
        with pytest.raises(ConfigError, match=f"{name} never moves the head's rows of a class again"):
            esacl.run(settings(name), tmp_path / "run", stream=rotated)
        return
    results = esacl.run(settings(name, fit_loss="ace"), tmp_path / "run", stream=rotated)
    assert results.matrix["task_il"] == results.matrix["class_il"], "no task has classes of its own"
    assert len(results.matrix["task_il"][0]) == 3
    assert (results.forgetting["task_il"] is None) == (name == "mtl")


@pytest.mark.parametrize("name", ["er", "lwf", "icarl", "co2l", "gpm", "sparcl-co2l", "esacl-der++", "packnet"])
def test_a_method_learns_blurred_tasks_or_says_why_not(name, blurred, tmp_path):
    if name in HOLDING:
        with pytest.raises(ConfigError, match="are in several tasks"):
            esacl.run(settings(name), tmp_path / "run", stream=blurred)
        return
    results = esacl.run(settings(name), tmp_path / "run", stream=blurred)
    assert results.task_il >= results.class_il


def test_contrastive_learning_has_anchors_in_every_look(rotated, tmp_path):
    losses = []
    for event in esacl.iter_run(settings("co2l"), tmp_path / "run", stream=rotated):
        losses += [event.loss.requires_grad or event.loss.item()] if type(event).__name__ == "StepDone" else []
    assert all(loss > 0 for loss in losses)
    assert torch.equal(rotated.task_of_at(1), torch.ones(10, dtype=torch.int64))


def test_a_probe_is_fitted_on_each_example_of_all_looks_once(rotated, tmp_path):
    """Without the earlier looks the head would know the last one only; exemplars of the last are in its task."""
    seen = []
    from esacl.readouts import base

    usual = base.features_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "features_of", lambda net, context, x: seen.append(x) or usual(net, context, x))
        esacl.run(settings("co2l"), tmp_path / "run", stream=rotated)
    looks = [{image.numpy().tobytes() for image in task.train.x} for task in rotated.tasks]
    assert len(seen) == 3
    for now, images in enumerate(seen):
        shown = [image.numpy().tobytes() for image in images]
        assert len(set(shown)) == len(shown)
        assert set(shown) >= looks[now]
        assert all(any(each in looks[look] for each in shown) for look in range(now))


@pytest.mark.parametrize("name", ["esacl-der++", "icarl"])
def test_a_run_on_given_tasks_resumes_to_the_same_bits(name, tmp_path):
    digits = open_stream(StreamConfig("split-digits", tasks=2, limit_per_class=10))
    x = [torch.cat([task.train.x, task.test.x]).float() for task in digits.tasks]
    y = [torch.cat([task.train.y, task.test.y]) for task in digits.tasks]
    made = as_stream([(x[0], y[0]), (x[1], y[1]), (x[0].flip(3), y[0])])
    whole = esacl.run(settings(name), tmp_path / "whole", stream=made)
    for event in esacl.iter_run(settings(name), tmp_path / "part", stream=made):
        if type(event).__name__ == "TaskDone":
            break
    with pytest.raises(ConfigError, match="this run learns from arrays: continue it in Python"):
        esacl.resume(tmp_path / "part")
    again = esacl.resume(tmp_path / "part", stream=made)
    assert again.matrix == whole.matrix
    weights = [(tmp_path / part / "model.safetensors").read_bytes() for part in ("whole", "part")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("name", ["der++", "icarl", "co2l", "esacl-ewc"])
def test_blurred_tasks_resume_at_every_boundary_to_the_same_bits(name, blurred, tmp_path):
    options = {"objective": {"buffer": 20}} if "buffer" in METHODS[name].options("objective") else {}
    used = finish(trainer(name, options, of=blurred, seed=5))
    assert len(assert_resumes(lambda: trainer(name, options, of=blurred), used, tmp_path)) == 2 * (2 + 1)


def test_a_run_opens_its_blurred_stream_again_when_it_resumes(tmp_path):
    """Which examples are spread over which tasks is in no checkpoint: it is drawn anew, from the recorded settings."""
    spread = {"tasks": 2, "limit_per_class": 10, "blur": 0.3}
    given = esacl.Config.from_mapping({**settings("der++").to_mapping(), "stream": spread})
    whole = esacl.run(given, tmp_path / "whole")
    for event in esacl.iter_run(given, tmp_path / "part"):
        if type(event).__name__ == "TaskDone":
            break
    assert esacl.resume(tmp_path / "part").matrix == whole.matrix
    weights = [(tmp_path / part / "model.safetensors").read_bytes() for part in ("whole", "part")]
    assert weights[0] == weights[1]


def test_columns_of_a_gpm_with_separate_heads_must_not_be_shared(rotated, tmp_path):
    asked = settings("gpm").with_options(constraint={"head": "separate"})
    with pytest.raises(ConfigError, match=r"Use with_options\(constraint=\{'head': 'projected'\}\)"):
        esacl.run(replace(asked, seed=1), tmp_path / "run", stream=rotated)
