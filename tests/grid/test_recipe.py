"""Recipes: a grid is expanded as it is written, and what cannot run is told before anything starts."""

from pathlib import Path

import pytest

from esacl.cli import main
from esacl.grid.plan import lay_out
from esacl.grid.recipe import read_recipe
from esacl.grid.tuning import read_tuning
from tests.grid.conftest import RECIPE

ROOT = Path(__file__).parents[2]
SHORT = """
methods = ["er", "ewc", "esacl-er"]
streams = ["split-digits", "split-cifar10"]
sparsities = [0.8, 0.9]
seeds = [0]
[base]
epochs = 1
buffer = 10
"""


def labels(path):
    return [point.label for point in read_recipe(path).points]


def settings(path):
    return {point.label: point.settings for point in read_recipe(path).points}


def test_a_row_is_run_at_every_point_of_the_axes_unless_it_says_otherwise(recipe):
    points = read_recipe(recipe()).points
    assert [point.label for point in points] == ["finetune", "er, batch_size 8", "er, batch_size 16"]
    assert [point.slug for point in points] == ["finetune", "er-batch_size-8", "er-batch_size-16"]
    text = RECIPE + '"update.momentum" = [0.1, 0.9]\n'
    assert len(read_recipe(recipe(text)).points) == 1 + 2 * 2


def test_a_row_wins_over_the_base_and_removes_from_it(recipe):
    rows = settings(recipe(RECIPE.replace('name = "er"', 'name = "er"\nset = { "train.epochs" = 3 }')))
    assert "objective.buffer" not in rows["finetune"]
    assert rows["finetune"]["train.epochs"] == 1
    assert rows["er, batch_size 8"]["train.epochs"] == 3
    assert rows["er, batch_size 8"]["objective.buffer"] == 10
    assert rows["er, batch_size 16"]["train.batch_size"] == 16
    assert all(row["update.momentum"] == 0.5 and row["machine.threads"] == 1 for row in rows.values())


def test_lists_of_methods_streams_and_sparsities_are_axes_and_only_sparse_methods_have_a_sparsity(recipe):
    assert labels(recipe(SHORT)) == [
        "er, stream split-digits",
        "er, stream split-cifar10",
        "ewc, stream split-digits",
        "ewc, stream split-cifar10",
        "esacl-er, stream split-digits, sparsity 0.8",
        "esacl-er, stream split-digits, sparsity 0.9",
        "esacl-er, stream split-cifar10, sparsity 0.8",
        "esacl-er, stream split-cifar10, sparsity 0.9",
    ]


def test_of_the_base_a_method_of_a_list_takes_what_it_has_a_use_for(recipe):
    rows = settings(recipe(SHORT))
    assert rows["er, stream split-digits"]["objective.buffer"] == 10
    assert "objective.buffer" not in rows["ewc, stream split-digits"]
    assert rows["esacl-er, stream split-digits, sparsity 0.9"]["sparsity.level"] == 0.9


def test_a_row_may_have_lists_of_its_own_and_the_lists_of_the_recipe_hold_where_a_row_says_nothing(recipe):
    rows = '\n[[rows]]\nname = "narrow"\nwidth = 8\n[[rows]]\nname = "pruned"\nmethod = "esacl"\nbuffer = ""\n'
    rows += 'stream = "split-digits"\nsparsities = [0.5]\n[[rows]]\nmethods = ["gpm"]\nbuffer = ""\n'
    found = labels(recipe(SHORT + rows))
    assert found[0] == "narrow, method er, stream split-digits"
    assert found[-4:] == [
        "narrow, method esacl-er, stream split-cifar10, sparsity 0.9",
        "pruned, sparsity 0.5",
        "gpm, stream split-digits",
        "gpm, stream split-cifar10",
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("title =", "titel =", "unknown key of the recipe 'titel'. Did you mean 'title'?"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "seeds = [0, 0] is not allowed"),
        ("seeds = [0, 1]", 'against = "err"', "unknown row to compare with 'err'. Did you mean 'er'?"),
        ("seeds = [0, 1]", "stop_at_chance = 1", "stop_at_chance = 1 is not allowed in a recipe. Allowed: true or"),
        ("seeds = [0, 1]", "seeds = 3", "seeds = 3 is not allowed in a recipe. Allowed: a list"),
        ("epochs = 1", "epoch = 1", "unknown setting of base 'epoch'. Did you mean 'epochs'?"),
        ("epochs = 1", "epochs = 0", "epochs = 0 is not allowed"),
        ("epochs = 1", "seed = 1", "unknown setting of base 'seed'"),
        ('name = "er"', 'name = "Finetune"\naxes = {}', "'Finetune' has the name or the folder of 'finetune'"),
        ('name = "er"', "", "a row of the recipe has the name None"),
        ('name = "er"', 'name = "er"\nbatch_size = 4', "row 'er' sets 'batch_size', which is an axis too"),
        ('name = "er"', 'name = "er"\nstop_at_chance = 1', "stop_at_chance = 1 in row 'er' is not allowed"),
        ('name = "er"', 'name = "er"\naxes = { epochs = 3 }', "axis epochs = 3 is not allowed"),
        ('name = "er"', 'name = "er"\naxes = { momentum = [3] }', "unknown axis of row 'er' 'momentum'"),
        ('name = "er"', 'name = "er"\nset = { "update.momentun" = 1 }', "Did you mean 'momentum'?"),
        ('name = "er"', 'name = "er"\nset = { update.momentum = 1 }', "in quotes"),
        ('name = "er"', 'name = "er"\nmethods = ["er"]', "row 'er' sets 'method', which is an axis too"),
        ('name = "er"', 'name = "er"\nsparsities = []', "axis sparsity = [] is not allowed"),
        ('"update.momentum" = 0.5', '"train.epochs" = 2', "'train.epochs' is given twice in base"),
        ('buffer = ""\n', "", "row 'finetune': method 'finetune' has no use for buffer = 10"),
        ('method = "er"', 'method = "err"', "unknown method 'err'"),
        ('method = "er"', 'methods = ["err"]', "unknown method 'err'"),
        ("split-digits", "split-digit", "unknown stream 'split-digit'. Did you mean 'split-digits'?"),
        ("split-digits", "arrays:mine", "stream 'arrays:mine' is in the memory of one Python process"),
        ("[[rows]]", "[[row]]", "unknown key of the recipe 'row'"),
        ("[base]", "[base", "cannot read the config file"),
        (RECIPE, 'title = "nothing"', "has no rows"),
        (
            RECIPE,
            'against = "er"\n[[rows]]\nname = "er, x"\n[[rows]]\nname = "er, y"',
            "several: 'er, x', 'er, y'",
        ),
        (RECIPE, 'methods = ["er", "ewc"]\n[base]\nkeep = 0.5', "method 'er' has no use for keep = 0.5"),
    ],
)
def test_a_bad_recipe_is_told_before_anything_starts(recipe, tmp_path, capsys, old, new, told):
    assert old in RECIPE
    with pytest.raises(SystemExit) as ended:
        main(["grid", str(recipe(RECIPE.replace(old, new))), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "recipes").rglob("*.toml")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_every_recipe_of_the_repository_can_be_run(path):
    if "tune = {" in path.read_text("utf-8") or "[tune]" in path.read_text("utf-8"):
        assert read_tuning(path).rows
    else:
        assert read_recipe(path).points


def test_a_grid_trains_nothing_again_for_what_pruning_costs(recipe, tmp_path):
    asked = RECIPE.replace("buffer = 10", "buffer = 10\nunpruned = true")
    for number, (begun, later) in enumerate(((RECIPE, asked), (asked, RECIPE))):
        texts = (begun, later, later.replace("= 0.5", "= 0.4"))
        cell, again, other = (lay_out(read_recipe(recipe(text)), tmp_path / str(number))[0] for text in texts)
        with (directory := cell.directory).locked():
            cell.claim(directory)
        cell.directory.results.write_text("{}")
        assert again.config().train.unpruned is (later == asked)
        assert (cell.state(), again.state(), other.state()) == ("finished", "finished", "changed")
