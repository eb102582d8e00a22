"""Task after task: what the classifier promises to those who call partial_fit."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from esacl import ContinualClassifier
from esacl.errors import RunError
from tests.estimator.samples import features, images, small


@pytest.mark.parametrize("method", ["er", "icarl", "esacl-der++"])
def test_old_classes_are_still_known_after_new_ones_arrived(method):
    model = small(method, epochs=15)
    for classes in (range(2), range(2, 4), range(4, 6)):
        model.partial_fit(*features(classes))
    assert model.score(*features(range(6), seed=5)) > 0.8


@pytest.mark.parametrize(
    ("method", "given", "rule"),
    [
        *(("gpm", None, "seen"), ("gpm", "task", "task"), ("la-maml", None, "seen"), ("nispa", None, "task")),
        *(("lwf", None, "task"), ("icarl", None, "seen"), ("er", None, "all"), ("er", "seen", "seen")),
    ],
)
def test_columns_are_given_or_those_that_suit_use_without_task_ids(method, given, rule, tmp_path):
    model = small(method, epochs=1, columns=given).partial_fit(*features(range(2)))
    assert model._learner.plan.config.train.columns == rule
    model.save(tmp_path / "m")
    later = ContinualClassifier.load(tmp_path / "m").partial_fit(*features(range(2, 4)))
    assert later._learner.plan.config.train.columns == rule


def test_gpm_keeps_old_classes_apart_from_new_ones_without_task_ids():
    scores = []
    for columns in (None, "task"):
        model = small("gpm", epochs=15, width=64, columns=columns)
        for classes in (range(2), range(2, 4), range(4, 6)):
            model.partial_fit(*features(classes))
        scores.append(model.score(*features(range(6), seed=5)))
    assert scores[0] > scores[1] + 0.05


def test_more_examples_of_the_same_classes_are_learnt_too():
    model = small().partial_fit(*features(range(2)))
    for seed in (1, 2):
        model.partial_fit(*features(range(2), seed=seed))
    assert model.n_tasks_ == 3
    assert model.score(*features(range(2), seed=3)) > 0.9


def test_fit_forgets_everything():
    model = small("er").fit(*features(range(2))).partial_fit(*features(range(2, 4)))
    x, y = images(range(4, 6), channels=1)
    model.fit(x, y)
    assert model.classes_.tolist() == [4, 5]
    assert model.n_tasks_ == 1
    assert np.array_equal(model.predict_proba(x), small("er").fit(x, y).predict_proba(x))


def test_labels_are_of_any_kind_and_classes_may_arrive_in_any_order():
    x, y = features(range(4))
    names = np.array(["d", "b", "cc", "a"])[y]
    model = small("er", epochs=10, buffer=60)
    model.partial_fit(x[y < 2], names[y < 2].astype(object)).partial_fit(x[y > 1], names[y > 1])
    assert model.classes_.tolist() == ["a", "b", "cc", "d"]
    assert model.score(x, names) > 0.8


def test_classes_that_were_named_but_not_learnt_are_never_answered():
    x, y = features(range(4))
    model = small("er").partial_fit(x[y < 2], y[y < 2], classes=[7, 3, 2, 1, 0])
    assert model.classes_.tolist() == [0, 1, 2, 3, 7]
    chances = model.predict_proba(x)
    assert (chances[:, 2:] == 0).all()
    assert_allclose(chances.sum(1), 1)


@pytest.mark.parametrize("each", [2, 3])
@pytest.mark.parametrize("method", ["esacl-der++", "icarl", "co2l", "ewc"])
def test_classes_of_two_or_three_examples_and_a_first_task_of_one_class_can_be_learnt(method, each):
    model = small(method).partial_fit(*features(range(1), each))
    assert model.predict(features(range(3))[0]).tolist() == [0] * 60
    model.partial_fit(*features(range(1, 3), each))
    assert set(model.predict(features(range(3))[0])) <= {0, 1, 2}


def test_the_same_random_state_gives_the_same_bits_and_the_global_generators_are_left_alone():
    x, y = features(range(3))
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one, other, third = (small(random_state=seed).fit(x, y).predict_proba(x) for seed in (1, 1, 2))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, third)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_without_a_random_state_every_fit_is_another():
    x, y = features(range(2))
    one, other = (small(random_state=None).fit(x, y).predict_proba(x) for _ in range(2))
    assert not np.array_equal(one, other)


def test_a_task_that_fails_or_is_interrupted_leaves_the_classifier_as_it_was(monkeypatch):
    x, y = features(range(4))
    model = small("der++").partial_fit(x[y < 2], y[y < 2])
    before = model.predict_proba(x)
    model.set_params(lr=1e6)
    with pytest.raises(RunError, match="diverged"):
        model.partial_fit(x[y > 1], y[y > 1])
    assert np.array_equal(model.predict_proba(x), before)
    assert model.classes_.tolist() == [0, 1]
    model.set_params(lr=None).partial_fit(x[y > 1], y[y > 1])
    whole = small("der++").partial_fit(x[y < 2], y[y < 2]).partial_fit(x[y > 1], y[y > 1])
    assert np.array_equal(model.predict_proba(x), whole.predict_proba(x))


def test_the_examples_of_a_task_are_not_kept():
    model = small("finetune").partial_fit(*features(range(2)))
    assert all(len(stage.train) == 0 for stage in model._learner._trainer.stream.stages)


def test_a_quarter_of_the_weights_left_goes_to_each_task_and_an_equal_share_where_their_number_is_known():
    unknown, known = small(sparsity=0.5), small(sparsity=0.5, expected_tasks=2)
    densities = []
    for classes in (range(2), range(2, 4)):
        x, y = features(classes)
        densities.append((unknown.partial_fit(x, y).density_, known.partial_fit(x, y).density_))
    assert_allclose(densities, [(0.125, 0.25), (0.21875, 0.5)], atol=0.002)


def test_epochs_batch_size_and_learning_rate_may_change_between_tasks():
    model = small("er", epochs=1).partial_fit(*features(range(2)))
    model.set_params(epochs=20, batch_size=4, lr=0.02, options={"update": {"momentum": 0.5}})
    model.partial_fit(*features(range(2, 4)))
    assert model.score(*features(range(2, 4), seed=4)) > 0.9


def test_answers_come_in_batches_without_gradients_and_do_not_change_the_classifier(monkeypatch):
    x, _ = features(range(3), each=200)
    model = small("er").fit(*features(range(3)))
    net = model._learner._trainer.net
    calls = []

    def watch(module, given, outputs):
        calls.append((len(given[0]), torch.is_grad_enabled(), module.training))

    with torch.no_grad():
        alone = np.concatenate([model.predict_proba(part) for part in np.array_split(x, 7)])
    net.model.register_forward_hook(watch)
    assert_allclose(model.predict_proba(x), alone, atol=1e-6)
    assert [size for size, _, _ in calls] == [256, 256, 88]
    assert not any(gradients or training for _, gradients, training in calls)


def test_a_bar_is_drawn_where_it_is_asked_for(capsys):
    small("er", verbose=True).fit(*features(range(2)))
    told = capsys.readouterr()
    assert "task 1" in told.err
    assert told.out == ""
