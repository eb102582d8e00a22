"""A grid over a method, a stream and a backbone of other packages, and over code that is named again."""

import json
from pathlib import Path

import pytest

from esacl.cli.grid_runs import command_again
from esacl.errors import ConfigError
from esacl.grid.recipe import read_recipe
from tests.cli.commands import esacl
from tests.installing import install_example

RECIPE = """
methods = ["anchor", "esacl-anchor"]
seeds = [0]
base = { stream = "stripes", backbone = "tiny", width = 8, epochs = 1 }
"""
CODE = "import esacl\nMETHOD = esacl.Method('mine', {})\n"


def test_a_grid_trains_what_plugins_offer(recipe, cluster, tmp_path, monkeypatch, capsys):
    install_example(tmp_path / "site", monkeypatch)
    esacl("grid", recipe(RECIPE), "--out", tmp_path / "out", "--scheduler", cluster)
    results = json.loads((tmp_path / "out" / "esacl-anchor" / "0" / "results.json").read_text())
    assert results["method"] == "esacl-anchor"
    assert "esacl-anchor" in capsys.readouterr().out


def test_code_in_a_recipe_is_started_only_where_it_is_named_again(recipe, cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    path = recipe('methods = ["mine.py:METHOD"]\nseeds = [0]\nbase = { epochs = 1, limit_per_class = 10 }\n')
    with pytest.raises(ConfigError, match="which no file is allowed to start"):
        read_recipe(path)
    words = ["--scheduler", cluster, "--code", "mine.py:METHOD"]
    esacl("grid", path, "--out", tmp_path / "out", *words)
    found = [json.loads(file.read_text())["method"] for file in (tmp_path / "out").rglob("results.json")]
    assert found == ["mine.py:METHOD"]


def test_a_tuning_starts_code_only_where_it_is_named_again(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    path = recipe('seeds = [0, 1]\n[[rows]]\nname = "mine"\nmethod = "mine.py:METHOD"\ntune = { lr = [0.01, 0.1] }\n')
    with pytest.raises(ConfigError, match=r"which no file is allowed to start.* add --code mine\.py:METHOD"):
        esacl("tune", path, "--dry-run")
    esacl("tune", path, "--dry-run", "--code", "mine.py:METHOD")
    assert "4 of 4 runs to do" in capsys.readouterr().out


def test_the_command_to_repeat_names_each_code_with_a_flag_of_its_own():
    again = command_again("grid", Path("r.toml"), [0, 1], ["a:B", "c:D"])
    assert again == "esacl grid r.toml --seeds 0 1 --code a:B --code c:D"
