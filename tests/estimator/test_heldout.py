"""What is held out is never trained on, is kept with the model, and tells what is still known."""

import numpy as np
import pytest
import torch

from esacl import ContinualClassifier
from esacl.errors import ConfigError, InputError
from esacl.estimator import heldout
from esacl.estimator.heldout import HeldOut
from esacl.estimator.learner import Learner
from esacl.streams.base import Examples
from esacl.training.checkpoint import pack, unpack
from tests.estimator.samples import features, images, small


@pytest.fixture
def trained(monkeypatch):
    """What every task was trained on."""
    seen, fit = [], Learner.fit_task

    def watched(self, examples, config, listen=None):
        seen.append(examples)
        return fit(self, examples, config, listen)

    monkeypatch.setattr(Learner, "fit_task", watched)
    return seen


def rows(x):
    return {each.tobytes() for each in x.numpy()}


def test_held_out_examples_are_never_trained_on_also_if_given_again(trained):
    x, y = images(range(2))
    model = small("er", holdout=0.2, epochs=1).partial_fit(x, y)
    held = model._held.examples
    assert held.y.bincount().tolist() == [4, 4]
    model.partial_fit(x, y).partial_fit(np.concatenate([x, images(range(2, 3))[0]]), np.append(y, [2] * 20))
    assert [len(each) for each in trained] == [32, 32, 32 + 16]
    assert not any(rows(each.x) & rows(held.x) for each in trained)
    assert model._held.examples.y.bincount().tolist() == [4, 4, 4], "only a class's first task gives some"


def test_the_history_counts_right_answers_on_what_is_held_out():
    model = small("er", holdout=0.3).partial_fit(*features(range(2)))
    before = model.history_[0]
    model.partial_fit(*features(range(2, 4)))
    held, entry = model._held.examples, model.history_[1]
    right = model._learner.logits(held.x)[:, :4].argmax(1) == held.y
    assert entry["classes"] == {c: [int(right[held.y == c].sum()), 6] for c in range(4)}
    assert entry["old"] == [int(right[held.y < 2].sum()), 12]
    assert entry["new"] == [int(right[held.y > 1].sum()), 12]
    assert (before["old"], before["before"]) == ([0, 0], [0, 0])
    assert entry["before"] == before["new"], "the same examples, by the model of before"
    assert (entry["task"], entry["examples"]) == (2, 28)


def test_old_classes_that_fall_by_more_than_chance_are_told():
    model = small("finetune", holdout=0.3, epochs=20).partial_fit(*features(range(2)))
    entry = model.partial_fit(*features(range(2, 4))).history_[-1]
    assert entry["before"][0] - entry["old"][0] >= 6
    assert entry["fell"] is True
    assert model.history_[0]["fell"] is False


def test_what_is_given_to_judge_by_is_neither_kept_nor_held_out(trained):
    model = small("er", holdout=0.3, epochs=1)
    model.partial_fit(*features(range(2)), held_out=features(range(3), each=5, seed=1))
    assert len(trained[0]) == 40
    assert model._held.examples is None
    assert model.history_[0]["classes"].keys() == {0, 1}, "class 2 is not known yet"
    assert model.history_[0]["new"][1] == 10


def test_small_classes_hold_nothing_out():
    model = small("er", holdout=0.2, epochs=1).partial_fit(*features(range(2), each=9))
    assert model._held.examples is None
    assert model.history_[0]["new"] == [0, 0]
    x = features(range(1), each=1)[0]
    same = small("er", holdout=0.2, epochs=1).partial_fit(np.concatenate([x] * 30 + [-x]), np.append([0] * 30, [1]))
    assert same._held.examples is None, "thirty copies are one example"


def test_a_task_of_nothing_but_held_out_examples_is_refused():
    x, y = features(range(2))
    model = small("er", holdout=0.3, epochs=1).partial_fit(x, y)
    held = np.isin(model._layout.examples(x, "auto").flatten(1).numpy(), model._held.examples.x.flatten(1).numpy()).all(
        1
    )
    with pytest.raises(InputError, match="12 are held out of training already"):
        model.partial_fit(x[held], y[held])
    assert model.n_tasks_ == 1


def test_held_out_examples_and_history_come_back_and_go_on_to_the_same_bits(tmp_path):
    model = small("er", holdout=0.2).partial_fit(*images(range(2))).partial_fit(*images(range(2, 3)))
    model.save(tmp_path / "m")
    twin = ContinualClassifier.load(tmp_path / "m")
    assert twin.history_ == model.history_
    for one in (model, twin):
        one.partial_fit(*images(range(3, 5)))
    assert twin.history_ == model.history_
    assert torch.equal(twin._held.examples.x, model._held.examples.x)
    assert np.array_equal(twin.predict_proba(images(range(5))[0]), model.predict_proba(images(range(5))[0]))


def test_a_file_of_before_loads_without_any(tmp_path):
    small("er", epochs=1).partial_fit(*images(range(2))).save(tmp_path / "m")
    state = unpack(tmp_path / "m", "esacl-classifier-1")
    del state["held"], state["params"]["holdout"]
    (tmp_path / "m").write_bytes(pack(state, "esacl-classifier-1"))
    model = ContinualClassifier.load(tmp_path / "m")
    assert model.history_ == []
    model.set_params(holdout=0.1).partial_fit(*images(range(2, 4)))
    assert [entry["task"] for entry in model.history_] == [2]
    assert model.history_[0]["classes"].keys() == {2, 3}


def test_held_out_examples_of_another_shape_are_refused():
    held = HeldOut(Examples(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))).state_dict()
    assert HeldOut.from_state(held, (3, 8, 8), "uint8", 1).examples is not None
    for wrong in [((1, 8, 8), "uint8", 1), ((3, 8, 8), "float32", 1), ((3, 8, 8), "uint8", 0)]:
        with pytest.raises(ValueError, match="held-out"):
            HeldOut.from_state(held, *wrong)


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(heldout, "BYTES", 3 * 64 * 8)
    monkeypatch.setattr(heldout, "ENTRIES", 2)
    model = small("er", holdout=0.5, epochs=1)
    for task in range(3):
        model.partial_fit(*images(range(task, task + 1)))
    assert model._held.examples.y.bincount().tolist() == [2, 2, 2], "8 examples may be kept of 3 classes"
    assert [entry["task"] for entry in model.history_] == [2, 3]


@pytest.mark.parametrize("share", [-0.1, 0.6, "some"])
def test_a_share_that_cannot_be_held_out_is_refused(share):
    with pytest.raises(ConfigError, match="a number from 0 to"):
        small(holdout=share).partial_fit(*features(range(2)))
