"""Models whose tensors are whole but do not belong together, or are no numbers."""

from dataclasses import replace

import pytest
import torch

from esacl.deploy import open_model
from esacl.deploy.about import exported
from esacl.deploy.pictures import answers
from esacl.deploy.tasks import own_weights, used
from esacl.documents import ClassName, as_record
from esacl.errors import RunError
from esacl.nets.expansion import SEED
from esacl.training.checkpoint import Unfit
from tests.deploy.models import saved, write_pictures


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return open_model(saved(tmp_path_factory.mktemp("model"), epochs=1))


WEIGHTS = {"first.weight": torch.ones(3, 5)}


@pytest.mark.parametrize(
    "beside",
    [
        {"owner.first.weight": torch.zeros(0)},
        {"owner.first.weight": torch.zeros(5, 3)},
        {"owner.second.weight": torch.zeros(3, 5)},
        {"mask.0.first.weight": torch.zeros(1, dtype=torch.uint8)},
        {"mask.x.first.weight": torch.zeros(2, dtype=torch.uint8)},
        {"norms.0.first.weight": torch.zeros(3)},
    ],
)
def test_what_does_not_fit_the_weights_of_a_task_is_refused(beside):
    for read in (lambda: used(WEIGHTS, beside, WEIGHTS), lambda: own_weights(WEIGHTS, beside, 0)):
        with pytest.raises(RunError, match="does not fit its weights"):
            read()


@pytest.mark.parametrize("number", [float("nan"), 3e38])
def test_a_model_that_answers_with_nan_is_refused(tmp_path, number):
    model = open_model(saved(tmp_path, epochs=1))
    broken = {name: torch.full_like(value, number) for name, value in model.weights.items()}
    with pytest.raises(RunError, match="answers with NaN"):
        list(answers(replace(model, weights=broken), [write_pictures(tmp_path / "pictures", range(2))], top=1))


def test_a_model_without_one_of_its_weights_is_refused(tmp_path):
    model = open_model(saved(tmp_path, epochs=1))
    fewer = {name: value for name, value in model.weights.items() if name not in model.prunable}
    with pytest.raises(RunError, match="do not fit"):
        replace(model, weights=fewer).densities()


@pytest.mark.parametrize("change", [lambda value: value[:1], lambda value: value[:0], lambda value: value.sum()])
@pytest.mark.parametrize("name", ["head.weight", "head.bias"])
def test_a_task_whose_columns_the_head_lacks_is_refused(model, name, change):
    broken = replace(model, weights={**model.weights, name: change(model.weights[name])})
    with pytest.raises(RunError, match="do not fit"):
        broken.for_task(1)


@pytest.mark.parametrize(
    "change",
    [
        {SEED: torch.zeros(2, dtype=torch.int64)},
        {SEED: torch.tensor(0.5)},
        {SEED: torch.tensor(1), "head.weight": torch.zeros(5)},
        {SEED: torch.tensor(1), "head.weight": torch.zeros(0, 2**40)},
    ],
)
def test_random_features_that_do_not_belong_to_the_head_are_refused(model, change):
    with pytest.raises(RunError, match="do not fit"):
        replace(model, weights={**model.weights, **change}).answering()


def test_a_class_is_called_by_no_number_that_json_lacks(model):
    assert as_record(["a", 7, 0.5, True], tuple[ClassName, ...]) == ("a", 7, 0.5, True)
    about = {
        "method": "er",
        "net": {"backbone": "mlp", "width": 16},
        "shape": [1, 8, 8],
        "input": {"kind": "bytes", "mean": [0.5], "std": [1.0]},
        "tasks": [[0, 1]],
        "accuracy": {},
    }
    assert exported({**about, "classes": ["0", "1"]}, {}).classes == ("0", "1")
    with pytest.raises(Unfit, match="classes"):
        exported({**about, "classes": ["0", float("inf")]}, {})
