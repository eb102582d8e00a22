import pytest
import torch

from esacl.errors import Diverged
from esacl.training.diverged import check_loss, solvable
from tests.builders import trainer


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_names_task_and_epoch(loss: float) -> None:
    with pytest.raises(Diverged, match=r"the loss of task 2, epoch 3 is (nan|inf)"):
        check_loss(loss, 1, 2, "Lower the rate.")
    check_loss(1e30, 1, 2, "")


def test_what_cannot_be_fitted_is_one_line_with_the_remedy() -> None:
    with pytest.raises(Diverged, match=r"nothing can be fitted to task 1 \(.+\)") as caught, solvable(0, "Lower it."):
        torch.linalg.cholesky(-torch.eye(2))
    assert "Lower it." in str(caught.value)


def test_a_run_whose_fit_fails_ends_in_that_line(monkeypatch: pytest.MonkeyPatch) -> None:
    training = trainer("er")
    monkeypatch.setattr(training.parts.readout, "fit", lambda *given: torch.linalg.cholesky(-torch.eye(2)))
    with pytest.raises(Diverged, match="nothing can be fitted to task 1"):
        list(training.run())
