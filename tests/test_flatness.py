"""Sharpness at equal training loss: the arithmetic of `make bench-flatness`, and its small form."""

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import flatness
import pytest

SEEDS = (0, 1, 2)


def power_law(scale: dict[str, float], losses: dict[str, tuple[float, ...]]) -> list[dict[str, Any]]:
    """Runs whose sharpness is scale × loss², at both points."""
    return [
        {"form": form, "seed": seed, "loss": loss, "pruned_loss": loss}
        | {"sharpness": scale[form] * loss**2, "pruned_sharpness": scale[form] * loss**2}
        for form in flatness.FORMS
        for seed in SEEDS
        for loss in losses[form]
    ]


def test_equal_sharpness_at_equal_loss_is_a_ratio_of_one() -> None:
    better, worse = (0.2, 0.4, 0.8), (0.3, 0.9, 1.6)
    losses = {form: worse if form == flatness.SGD else better for form in flatness.FORMS}
    runs = power_law(dict.fromkeys(flatness.FORMS, 0.1), losses)

    assert flatness.table(runs, SEEDS).count("| 1.00 (1.00 to 1.00) |") == 4


def test_a_sharper_form_is_told_by_its_factor() -> None:
    scale = {form: 0.3 if form == flatness.SGD else 0.1 for form in flatness.FORMS}
    runs = power_law(scale, dict.fromkeys(flatness.FORMS, (0.2, 0.4, 0.8)))

    assert flatness.table(runs, SEEDS).count("| 0.33 (0.33 to 0.33) |") == 4
    assert flatness.sharpness_at(0.5, runs[:3], "loss", "sharpness") == pytest.approx(log(0.1 * 0.5**2))


def test_losses_without_a_common_range_are_refused() -> None:
    losses = {form: (2.0, 3.0) if form == flatness.SGD else (0.2, 0.4) for form in flatness.FORMS}

    with pytest.raises(SystemExit, match="try other --epochs"):
        flatness.table(power_law(dict.fromkeys(flatness.FORMS, 0.1), losses), SEEDS)


def test_runs_that_are_there_are_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[tuple[str, int, int]] = []
    monkeypatch.setattr(flatness, "measured", recorded(trained))
    arguments = ["--epochs", "1", "2", "--seeds", "0", "1", "--out", str(tmp_path / "raw.json.gz")]

    flatness.main(arguments)
    first = capsys.readouterr().out
    flatness.main(arguments)

    assert len(trained) == 2 * 2 * len(flatness.FORMS)
    assert capsys.readouterr().out == first


def recorded(trained: list[tuple[str, int, int]]) -> Callable[[str, int, int], dict[str, Any]]:
    """Stands for training: notes what was asked for."""

    def measured(form: str, epochs: int, seed: int) -> dict[str, Any]:
        trained.append((form, epochs, seed))
        names = ("loss", "sharpness", "pruned_loss", "pruned_sharpness")
        return {"form": form, "epochs": epochs, "seed": seed} | dict.fromkeys(names, 1.0 / epochs)

    return measured


def test_a_form_is_trained_and_measured() -> None:
    found = flatness.measured(flatness.SGD, epochs=1, seed=0)

    assert found["pruned_loss"] > 0
    assert found["pruned_sharpness"] > 0
