"""Models whose tensors are whole but do not belong together, or are no numbers."""

from dataclasses import replace

import pytest
import torch

from esacl.deploy import open_model
from esacl.deploy.pictures import answers
from esacl.deploy.tasks import own_weights, used
from esacl.errors import RunError
from tests.deploy.models import saved, write_pictures

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
