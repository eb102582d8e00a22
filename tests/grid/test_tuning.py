"""Recipes of tunings: what would make a comparison unfair is refused before anything starts."""

import pytest

from esacl.cli import main
from esacl.errors import ConfigError
from esacl.grid.recipe import read_recipe
from esacl.grid.tuning import read_tuning
from tests.grid.tuning import TUNING, read


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.toml"


def test_every_row_has_its_trials_and_all_are_judged_on_validation(path):
    tuning = read(path)
    assert tuning.trials_a_row == 4
    assert [(row.name, [trial.label for trial in row.trials]) for row in tuning.rows] == [
        ("er", ["er, lr 0.01", "er, lr 0.03", "er, lr 0.1", "er, lr 0.3"]),
        (
            "ewc",
            [f"ewc, lr {lr}, objective.lam {lam}" for lr in (0.01, 0.03) for lam in (1.0, 3.0)],
        ),
    ]
    assert all(trial.config(0).train.split == "validation" for trial in tuning.recipe.points)
    assert tuning.rows[1].settings(tuning.rows[1].trials[1]) == {"lr": 0.01, "objective.lam": 3.0}


def test_trials_of_the_recipe_hold_where_a_row_has_none_of_its_own(path):
    shared = TUNING.replace("tune = { lr = [0.01, 0.03, 0.1, 0.3] }", "") + "[tune]\nlr = [1.0, 2.0, 3.0, 4.0]\n"
    tuning = read(path, shared)
    assert [dict(row.tried) for row in tuning.rows] == [
        {"lr": [1.0, 2.0, 3.0, 4.0]},
        {"lr": [0.01, 0.03], "objective.lam": [1.0, 3.0]},
    ]


def test_every_point_of_the_axes_is_a_row_that_is_tuned_for_itself(path):
    text = TUNING.replace('method = "er"', 'method = "er"\naxes = { buffer = [10, 20] }')
    assert [(row.name, len(row.trials)) for row in read(path, text).rows] == [
        ("er, buffer 10", 4),
        ("er, buffer 20", 4),
        ("ewc", 4),
    ]
    listed = 'methods = ["er", "finetune"]\nseeds = [0, 1]\n[tune]\nlr = [0.1, 0.2]\n[base]\nbuffer = 10\n'
    assert [(row.name, len(row.trials)) for row in read(path, listed).rows] == [("er", 2), ("finetune", 2)]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "[0.01, 0.03, 0.1, 0.3]",
            "[0.01, 0.03, 0.1]",
            "the rows do not have the same number of trials: er 3 (3), ewc 4 (2 × 2). A row that may try more looks",
        ),
        ("tune = { lr = [0.01, 0.03, 0.1, 0.3] }", "", "er 1 (nothing to tune), ewc 4 (2 × 2)"),
        ("epochs = 1", 'epochs = 1\nsplit = "test"', "'er, lr 0.01' has split = 'test', but settings chosen on the"),
        ('method = "ewc"', 'method = "ewc"\nsplit = "test"', "leave split out"),
        ("seeds = [0, 1]", "seeds = [3]", "seeds = [3] is one seed"),
        ("seeds = [0, 1]", "", "Give at least 2, such as seeds = [0, 1], or --seeds 0 1"),
        ("lr = [0.01, 0.03, 0.1, 0.3]", "lr = 0.3", "axis lr = 0.3 is not allowed. Allowed: a list"),
        ("tune = { lr = [0.01, 0.03, 0.1, 0.3] }", "tune = 4", "tune = 4 in row 'er' is not allowed"),
        ('method = "er"', 'method = "er"\nlr = 0.5', "row 'er' sets lr = 0.5 and tunes it too"),
        ('method = "er"', 'method = "er"\naxes = { lr = [1] }', "row 'er' has 'lr' in axes and in tune"),
        ("lr = [0.01, 0.03, 0.1, 0.3]", "limit_per_class = [4, 5, 6, 8]", "row 'er' tunes 'limit_per_class', but"),
        ("lr = [0.01, 0.03, 0.1, 0.3]", "split = ['test', 'validation']", "Write axes = { split = [...] } instead"),
        ("0.1, 0.3]", "0.1, -1]", "row 'er, lr -1': lr = -1 is not allowed"),
        (TUNING, "methods = ['er']\nseeds = [0, 1]", "there is nothing to choose from: every row has one trial"),
    ],
)
def test_an_unfair_tuning_is_refused_with_the_reason(path, tmp_path, capsys, old, new, told):
    assert old in TUNING
    path.write_text(TUNING.replace(old, new), "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["tune", str(path), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_seeds_of_the_command_line_count_too(path):
    read(path)
    with pytest.raises(ConfigError, match=r"seeds = \[7\] is one seed"):
        read_tuning(path, [7])
    assert read_tuning(path, [7, 8, 9]).recipe.seeds == [7, 8, 9]
    path.write_text(TUNING.replace("seeds = [0, 1]", ""), "utf-8")
    assert read_tuning(path, [7, 8]).recipe.seeds == [7, 8]


def test_a_score_that_a_row_will_not_have_is_refused(path):
    read(path, TUNING.replace('method = "er"', 'method = "packnet"\nbuffer = ""'))
    with pytest.raises(ConfigError, match="row 'er' has no Class-IL accuracy"):
        read_tuning(path, score="class-il")
    assert read_tuning(path, score="both").rows


def test_a_grid_does_not_take_a_tuning_for_one(path):
    for text in (TUNING, "methods = ['er']\n[tune]\nlr = [1.0, 2.0]\n"):
        path.write_text(text, "utf-8")
        with pytest.raises(ConfigError, match="says what to tune, and a grid chooses nothing"):
            read_recipe(path)
