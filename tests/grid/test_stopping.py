"""A run that has learnt nothing from its first task is stopped, recorded as such, and not tried again."""

import pytest

from esacl.cli import main
from esacl.grid.recipe import read_recipe
from esacl.grid.study import read_study
from tests.grid.conftest import RECIPE

STILL = RECIPE.replace("seeds = [0, 1]", "seeds = [0]").replace("[8, 16]", "[16]").replace("limit_per_class = 8\n", "")
STILL = STILL.replace('name = "er"', 'name = "still"\nlr = 1e-9\nstop_at_chance = true')


def test_a_row_that_ends_its_first_task_at_chance_is_stopped_and_stays_so(recipe, cluster, brief, tmp_path, capsys):
    words = ["grid", str(recipe(STILL)), "--out", str(tmp_path / "out"), "--scheduler", cluster]
    with pytest.raises(SystemExit) as ended:
        main(words)
    told = capsys.readouterr()
    assert not ended.value.code
    assert "stopped still, batch_size 16, seed 0: at chance after its first task: Task-IL" in told.err
    assert "0 of 1, 1 stopped" in " ".join(told.out.split())
    assert "## Stopped\n\n- still, batch_size 16, seed 0: at chance" in (tmp_path / "out" / "table.md").read_text(
        "utf-8"
    )
    assert (tmp_path / "out" / "finetune" / "0" / "results.json").exists()
    study = read_study([tmp_path / "out"])
    assert [name for name, _ in study.stopped] == ["still, batch_size 16, seed 0"]
    assert not study.failures
    with pytest.raises(SystemExit):
        main([*words, "--only", "still"])
    assert "0 of 2 runs to do" in capsys.readouterr().err


def test_a_row_or_the_recipe_may_stop_at_chance(recipe):
    assert [point.stop_at_chance for point in read_recipe(recipe(STILL)).points] == [False, True]
    everywhere = read_recipe(recipe("stop_at_chance = true\n" + RECIPE))
    assert all(point.stop_at_chance for point in everywhere.points)
