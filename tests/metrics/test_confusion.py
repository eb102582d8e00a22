import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix as of_sklearn
from sklearn.metrics import precision_recall_fscore_support

from esacl.metrics.confusion import ClassScore, class_scores, confusion_matrix
from tests.reference import evaluation as naive


def drawn(classes: int, examples: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(classes)
    truth = rng.integers(classes, size=examples)
    answers = np.where(rng.random(examples) < 0.7, truth, rng.integers(classes, size=examples))
    return torch.from_numpy(truth), torch.from_numpy(answers)


@pytest.mark.parametrize("classes", [1, 2, 7])
def test_the_confusion_matrix_is_that_of_a_loop_and_of_scikit_learn(classes: int) -> None:
    truth, answers = drawn(classes)
    found = confusion_matrix(truth, answers, classes).tolist()
    assert found == naive.confusion(truth.tolist(), answers.tolist(), classes)
    assert found == of_sklearn(truth, answers, labels=range(classes)).tolist()


@pytest.mark.parametrize("classes", [2, 7])
def test_precision_recall_and_count_are_those_of_scikit_learn(classes: int) -> None:
    truth, answers = drawn(classes)
    found = class_scores(confusion_matrix(truth, answers, classes).tolist())
    precision, recall, _, count = precision_recall_fscore_support(truth, answers, labels=range(classes))
    assert [each.precision for each in found] == pytest.approx(precision.tolist())
    assert [each.recall for each in found] == pytest.approx(recall.tolist())
    assert [each.count for each in found] == count.tolist()


def test_what_cannot_be_divided_is_not_known() -> None:
    assert class_scores([[0, 0], [2, 0]]) == [ClassScore(0.0, None, 0), ClassScore(None, 0.0, 2)]
