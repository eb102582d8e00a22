"""What X and y may be, how the axes of X are told apart, and what is said about others."""

import numpy as np
import pytest
import torch

from esacl import ContinualClassifier
from esacl.errors import ConfigError, EsaclError, InputError
from esacl.methods import METHODS
from tests.estimator.samples import features, images, small


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_images_are_the_same_whichever_axis_the_channels_are(backbone):
    x, y = images(range(3))
    model = small("er", backbone=backbone, width=8).fit(x, y)
    last = np.moveaxis(x, 1, 3)
    other = small("er", backbone=backbone, width=8).fit(last, y)
    assert np.array_equal(model.predict_proba(x), other.predict_proba(last))
    assert np.array_equal(model.predict_proba(x), model.predict_proba(torch.from_numpy(x)))
    assert model.n_features_in_ == 192
    assert model.score(*images(range(3), seed=7)) > 0.9


def test_grey_images_may_have_three_axes_and_numbers_of_any_kind():
    x, y = images(range(3), channels=1)
    for form in (x[:, 0], x[:, 0].astype(np.int32), x / 255.0, x.astype(np.float32)):
        assert small("er", epochs=10).fit(form, y).score(form, y) > 0.9


def test_images_upside_down_and_read_only_are_read_as_they_are():
    x, y = images(range(2))
    model = small("er").fit(x, y)
    answers = model.predict_proba(x)
    assert np.array_equal(model.predict_proba(x[::-1]), answers[::-1])
    x.flags.writeable = False
    assert np.array_equal(model.predict_proba(x), answers)


def test_axes_that_cannot_be_told_apart_must_be_named():
    x, y = images(range(2))
    pictures = x[:, :, :, :3]
    with pytest.raises(InputError, match=r"\[40, 3, 8, 3\].*channels='first'"):
        small("er").fit(pictures, y)
    with pytest.raises(InputError, match="channels='first'"):
        small("er").fit(np.concatenate([x, x], axis=1), y)
    first, last = small("er", channels="first").fit(pictures, y), small("er", channels="last").fit(pictures, y)
    assert first._layout.shape == (3, 8, 3)
    assert last._layout.shape == (3, 3, 8)
    with pytest.raises(ConfigError, match="channels = 'middle' is not allowed"):
        small("er", channels="middle").fit(x, y)


def test_features_of_any_size_are_brought_to_a_common_scale():
    x, y = features(range(3))
    for scale, shift in ((1e-3, 0), (1e4, 1e6)):
        model = small(epochs=10).fit(scale * x + shift, y)
        assert model.score(scale * x + shift, y) > 0.9


def test_a_feature_that_was_constant_in_the_first_task_does_not_swamp_later_ones():
    x, y = features(range(4))
    x[:, 0] = np.where(y < 2, 0, 1e-3 * x[:, 0])
    model = small("er", epochs=10, buffer=80)
    model.partial_fit(x[y < 2], y[y < 2]).partial_fit(x[y > 1], y[y > 1])
    assert model.score(x, y) > 0.9


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda x, y: (x[:, :, :4], y), "4×8 pixels, as bytes.*learnt from images of 3 channels, 8×8"),
        (lambda x, y: (x / 255, y), r"as floats, but this .* as bytes \(uint8\)"),
        (lambda x, y: (x.reshape(len(x), -1), y), "192 features, but this"),
        (lambda x, y: (x[:, :, None], y), r"shape \[40, 3, 1, 8, 8\]"),
        (lambda x, y: (x, y.astype(str)), "texts such as .*'0'.*numbers such as"),
        (lambda x, y: (x, y + 0.5), "Unknown label type: continuous"),
        (lambda x, y: (x, y[:-1]), "inconsistent numbers of samples"),
        (lambda x, y: (x[:1], y[:1]), "n_samples=1 is too few"),
    ],
)
def test_other_examples_than_those_of_before_are_refused_with_both_forms(spoil, match):
    x, y = images(range(2))
    model = small("er", epochs=1).fit(x, y)
    with pytest.raises(ValueError, match=match):
        model.partial_fit(*spoil(x, y))


def test_what_overflows_is_refused():
    x, y = features(range(2))
    model = small("er", epochs=1).fit(x, y)
    with pytest.raises(InputError, match="too large for 32-bit"):
        model.predict(1e60 * x)


def test_more_classes_than_columns_are_refused_with_what_to_do():
    model = small("er", max_classes=3, epochs=1).partial_fit(*features(range(2)))
    with pytest.raises(InputError, match=r"there are 4 classes now, but max_classes=3.*max_classes=8 or more"):
        model.partial_fit(*features(range(2, 4)))
    with pytest.raises(InputError, match="label 1, which is not in classes"):
        small("er").partial_fit(*features(range(2)), classes=[0, 3])


def test_methods_that_must_be_told_the_task_are_refused_with_the_reason():
    told = [name for name, row in METHODS.items() if row.needs_task_id]
    for method in told:
        with pytest.raises(ConfigError, match="nobody tells predict the task"):
            small(method).fit(*features(range(2)))
    with pytest.raises(ConfigError, match="mtl learns all tasks at once"):
        small("mtl").fit(*features(range(2)))


def test_lwf_refuses_a_task_of_one_class_and_goes_on_afterwards():
    model = small("lwf", epochs=1).partial_fit(*features(range(2)))
    with pytest.raises(ConfigError, match="lwf compares the classes of a task"):
        model.partial_fit(*features(range(2, 3)))
    assert model.partial_fit(*features(range(2, 4))).n_tasks_ == 2


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"method": "derpp"}, "Did you mean 'der\\+\\+'"),
        ({"method": "er", "sparsity": 0.5}, "'er' has no use for"),
        ({"epochs": 0}, "epochs=0 is not allowed"),
        ({"max_classes": 0}, "max_classes=0 is not allowed"),
        ({"expected_tasks": 1.5}, "expected_tasks=1.5 is not allowed"),
        ({"options": {"updates": {}}}, "Did you mean 'update'"),
        ({"options": {"update": 3}}, "Allowed: dicts by slot"),
        ({"options": {"sparsity": {"quota": "even"}}}, "Give expected_tasks"),
        ({"backbone": "resnet18"}, "needs images of at least"),
        ({"columns": "every"}, "columns='every' is not allowed"),
        ({"method": "icarl", "columns": "task"}, "columns='task' leaves them out. Use columns='seen' or columns='all'"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
        ({"method": "icarl", "buffer": 1}, "buffer=1 is too small: there are 2 classes"),
    ],
)
def test_settings_that_cannot_be_are_refused_when_learning_starts(changes, match):
    with pytest.raises(ConfigError, match=match):
        small(**changes).fit(*features(range(2)))


@pytest.mark.parametrize(
    "change", [{"method": "er"}, {"buffer": 3}, {"width": 8}, {"columns": "task"}, {"max_classes": 20}]
)
def test_what_a_classifier_is_made_of_cannot_change_between_tasks(change):
    model = small(epochs=1).fit(*features(range(2)))
    with pytest.raises(ConfigError, match="when this classifier began to learn"):
        model.set_params(**change).partial_fit(*features(range(2, 4)))


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"epochs": 0}, r"^epochs=0 is not allowed\. Allowed: a whole number from 1"),
        ({"batch_size": -1}, r"^batch_size=-1 is not allowed"),
        ({"lr": -1.0}, r"^lr=-1\.0 is not allowed"),
        ({"width": 0}, r"^width=0 is not allowed"),
        ({"sparsity": 1.5}, r"^sparsity=1\.5 is not allowed"),
        ({"method": "er", "sparsity": 0.5}, r"no use for sparsity=0\.5\."),
        ({"method": "er", "lr": 1e6}, r"training diverged: .* Use a smaller lr than 1e\+06"),
        ({"method": "icarl", "buffer": 1}, r"Use buffer=2 or more"),
        ({"device": "cuda:77"}, r"^device='cuda:77' is not available here\. .*Use device='auto'"),
        ({"options": {"selection": {"keep": 7}}}, r"^options=\{'selection': \{'keep': 7\}\} is not allowed"),
    ],
)
def test_errors_name_the_parameters_and_no_flags(params, named):
    x = np.arange(24, dtype=np.float32).reshape(12, 2)
    with pytest.raises(EsaclError, match=named) as refused:
        ContinualClassifier(**{"epochs": 3, "random_state": 0, **params}).fit(x, [0, 1] * 6)
    assert "--" not in str(refused.value)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int64])
def test_a_score_takes_labels_as_tensors_of_any_kind(kind):
    x, y = features(range(2))
    model = small("finetune", epochs=1).fit(x, y)
    assert model.score(x, torch.from_numpy(y).to(kind)) == model.score(x, y)


@pytest.mark.parametrize(
    "label", [np.datetime64("2020"), np.timedelta64(1, "s"), np.array([(1,)], dtype=[("a", "i4")])[0]]
)
def test_labels_that_no_file_can_hold_are_refused_before_they_are_learnt(label):
    x, _ = features(range(2))
    with pytest.raises(InputError, match="y holds labels of type"):
        small("er").fit(x, np.array([label] * len(x)))
