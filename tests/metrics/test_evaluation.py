import json
from dataclasses import replace

import pytest
import torch

from esacl.metrics.calibration import fit_temperature
from esacl.metrics.evaluation import Calibration, Evaluation, Mistake, calibration
from tests.metrics.test_calibration import drawn

FOUND = Evaluation(
    "model", "data", "er", ("ant", "bee", "cat"), ((3, 1, 0), (0, 2, 4), (0, 0, 0)), Calibration(0.1, ())
)


def test_the_figures_of_an_evaluation_follow_from_its_confusion_matrix():
    assert (FOUND.examples, FOUND.right, FOUND.accuracy) == (10, 5, 0.5)
    assert FOUND.mean_recall == pytest.approx((3 / 4 + 2 / 6) / 2), "a class without examples does not count"
    assert FOUND.confusions(5) == [("bee", "cat", 4), ("ant", "bee", 1)]
    assert FOUND.interval[0] < 0.5 < FOUND.interval[1]


def test_an_evaluation_is_a_document_of_plain_values():
    mistake = Mistake("a.png", "ant", "bee", 0.9, torch.zeros(3, 2, 2, dtype=torch.uint8))
    found = json.loads(json.dumps(replace(FOUND, mistakes=(mistake,)).to_json()))
    assert found["mistakes"] == [{"name": "a.png", "class": "ant", "answer": "bee", "probability": 0.9}]
    assert found["classes"][1] == {"class": "bee", "precision": 2 / 3, "recall": 2 / 6, "count": 6}
    assert (found["schema"], found["accuracy"]) == (1, 0.5)


def test_a_temperature_is_fitted_on_what_the_model_holds_and_judged_on_the_data():
    logits, truth = drawn(examples=400)
    found = calibration(logits[:200], truth[:200], (logits[200:], truth[200:], "the memory"))
    assert found.temperature == fit_temperature(logits[200:], truth[200:])
    assert (found.fitted_on, found.fitted, found.judged) == ("the memory", 200, 200)
    assert found.error_before == found.error
    assert found.error_after < 0.7 * found.error


def test_without_it_no_example_is_both_fitted_on_and_judged():
    logits, truth = drawn(examples=400)
    found = calibration(logits, truth, None)
    assert found.fitted + found.judged == 400
    ours = torch.cat([(truth == column).nonzero().flatten()[::2] for column in range(5)])
    assert found.temperature == fit_temperature(logits[ours.sort().values], truth[ours.sort().values])
    assert found.error_after < found.error_before
    few = calibration(logits[:39], truth[:39], None)
    assert (few.temperature, few.fitted_on) == (None, None)


def test_no_temperature_is_the_best_where_every_answer_is_right():
    logits, truth = drawn(examples=100)
    right = torch.nn.functional.one_hot(truth, 5).float() * 3
    found = calibration(logits, truth, (right, truth, "held-out examples"))
    assert (found.temperature, found.fitted_on, found.error_after) == (None, "held-out examples", None)
