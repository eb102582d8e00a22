"""The choice of a tuning: best mean over the seeds, failed trials last, and said plainly how clear it was."""

import pytest

from esacl.grid.choice import choose
from esacl.grid.tuning_tables import clearness
from tests.grid.tuning import TUNING, fabricate, read


@pytest.fixture
def chosen(tmp_path):
    """The choice for the row er among trials with these accuracies."""

    def of(accuracy, score="both"):
        tuning = read(tmp_path / "small.toml")
        cells = fabricate(tuning, tmp_path / "out", {f"er, lr {lr}": seeds for lr, seeds in accuracy.items()})
        return choose(tuning, cells, score)[0]

    return of


def test_the_best_mean_over_the_seeds_is_chosen_not_the_luckiest_seed(chosen):
    choice = chosen({0.01: ((99, 90), (60, 20)), 0.03: ((80, 60), (82, 58))})
    assert choice.best.settings == {"lr": 0.03}
    assert choice.best.score.mean == pytest.approx(0.70)
    assert choice.trials[0].score.mean == pytest.approx(0.6725)
    assert choice.trials[0].score.std == pytest.approx((0.945 - 0.40) / 2**0.5)


def test_a_score_may_be_one_of_the_two_accuracies(chosen):
    found = {0.01: ((90, 20), (90, 20)), 0.03: ((50, 50), (50, 50)), 0.1: ((80, 45), (80, 45))}
    best = {score: chosen(found, score).best.settings["lr"] for score in ("both", "task-il", "class-il")}
    assert best == {"both": 0.1, "task-il": 0.01, "class-il": 0.03}


def test_without_class_il_both_is_task_il(chosen):
    choice = chosen({lr: ((value, None),) * 2 for lr, value in zip((0.01, 0.03, 0.1, 0.3), (60, 80, 70, 50))})
    assert choice.best.settings == {"lr": 0.03}
    assert choice.best.score.mean == pytest.approx(0.8)


def test_a_trial_with_a_failed_seed_is_worse_than_any_other(chosen):
    choice = chosen({0.01: ((99, 99), None), 0.03: ((20, 11), (20, 11))})
    assert choice.best.settings == {"lr": 0.03}
    assert choice.trials[0].score is None
    assert choice.trials[0].line.seeds == "1 of 2"


def test_of_equal_trials_the_first_listed_is_chosen(chosen):
    assert chosen({0.03: ((60, 60), (60, 60)), 0.1: ((60, 60), (60, 60))}).best.settings == {"lr": 0.03}


def test_where_every_trial_failed_nothing_is_chosen(chosen):
    choice = chosen(dict.fromkeys((0.01, 0.03, 0.1, 0.3), (None, None)))
    assert choice.best is None
    assert (choice.near, choice.ends) == (0, {})


def test_trials_within_a_point_of_the_best_are_counted(chosen):
    choice = chosen({0.01: ((70, 70),) * 2, 0.03: ((69, 69),) * 2, 0.1: ((69.4, 69.4),) * 2, 0.3: ((68.8, 68.8),) * 2})
    assert choice.near == 3


@pytest.mark.parametrize(("rate", "ends"), [(0.01, {"lr": "smallest"}), (0.1, {}), (0.3, {"lr": "largest"})])
def test_a_best_value_at_an_end_of_its_list_is_said(chosen, rate, ends):
    choice = chosen({rate: ((70, 70), (70, 70))})
    assert choice.ends == ends
    told = [f"lr {rate} is the {end} of the 4 values tried." for end in ends.values()]
    assert ("values tried" in clearness(choice)) == bool(told)
    assert all(words in clearness(choice) for words in told)


def test_only_numbers_of_three_or_more_have_ends(tmp_path):
    text = TUNING.replace("[0.01, 0.03, 0.1, 0.3]", '[0.03, 0.01], "update.schedule" = ["constant", "cosine"]')
    tuning = read(tmp_path / "small.toml", text)
    best = {"er, lr 0.03, update.schedule cosine": ((70, 70), (70, 70))}
    assert choose(tuning, fabricate(tuning, tmp_path / "out", best), "both")[0].ends == {}
