import pytest
import torch
from scipy.optimize import minimize_scalar

from esacl.metrics.calibration import BINS, COLDEST, HOTTEST, calibration_error, fit_temperature, reliability
from tests.reference import evaluation as naive


def drawn(examples: int = 300, classes: int = 5, sharpness: float = 4.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are `sharpness` times as large as the ones that the labels were drawn with."""
    source = torch.Generator().manual_seed(1)
    honest = torch.randn(examples, classes, generator=source) * 1.5
    truth = torch.multinomial(honest.softmax(1), 1, generator=source).squeeze(1)
    return honest * sharpness, truth


def test_the_calibration_error_is_that_of_a_loop_over_bins() -> None:
    logits, truth = drawn()
    confidence, answers = logits.softmax(1).max(1)
    right = answers == truth
    found = reliability(confidence, right)
    assert sum(each.count for each in found) == len(truth)
    error = naive.calibration_error(confidence.tolist(), right.tolist(), BINS)
    assert calibration_error(found) == pytest.approx(error, abs=1e-6)
    assert calibration_error([]) == 0


def test_the_temperature_minimises_the_cross_entropy() -> None:
    logits, truth = drawn()
    found = fit_temperature(logits, truth)
    best = minimize_scalar(
        lambda t: naive.cross_entropy(logits.tolist(), truth.tolist(), t), bounds=(COLDEST, HOTTEST), method="bounded"
    )
    assert found == pytest.approx(best.x, rel=1e-3)
    assert found == pytest.approx(4, rel=0.2), "logits were four times too large"


def test_answers_of_the_right_temperature_are_better_calibrated() -> None:
    logits, truth = drawn(examples=2000)

    def error(temperature: float) -> float:
        confidence, answers = (logits / temperature).softmax(1).max(1)
        return calibration_error(reliability(confidence, answers == truth))

    assert error(fit_temperature(logits, truth)) < 0.3 * error(1.0)


def test_where_every_answer_is_right_the_temperature_is_the_coldest() -> None:
    logits = torch.eye(3) * 5
    assert fit_temperature(logits, torch.arange(3)) == pytest.approx(COLDEST)
    assert fit_temperature(logits, torch.tensor([1, 2, 0])) == pytest.approx(HOTTEST)


def test_classes_that_are_never_answered_do_not_spoil_the_temperature() -> None:
    logits, truth = drawn()
    wider = torch.cat([logits, torch.full((len(logits), 1), -torch.inf)], dim=1)
    assert fit_temperature(wider, truth) == pytest.approx(fit_temperature(logits, truth))
