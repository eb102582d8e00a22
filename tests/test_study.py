"""Studies: a recipe is checked before it runs, nothing is trained twice, and the tables say what was found."""

import csv
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from esacl.cli import main as command_line
from esacl.runner import start

ROOT = Path(__file__).parents[1]
RECIPE = """
title = "Small digits"
about = "As few as possible."
seeds = [0, 1]
[base]
stream = "split-digits"
epochs = 1
limit_per_class = 8
buffer = 10
set = { "update.momentum" = 0.5 }
[[rows]]
name = "finetune"
method = "finetune"
buffer = ""
axes = {}
[[rows]]
name = "er"
method = "er"
[axes]
batch_size = [8, 16]
"""


@pytest.fixture(scope="module")
def study():
    """The script, which is no part of the package."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location("study", ROOT / "benchmarks" / "study.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


class Here:
    """A command that runs in this process, for the sake of speed."""

    def __init__(self, arguments, log, environment):
        assert environment["OMP_NUM_THREADS"] == "1"
        try:
            command_line(arguments)
        except SystemExit as ended:
            self.returncode = ended.code or 0
        log.write_text("the last words of the run\n")

    def poll(self):
        return self.returncode


@pytest.fixture
def launched(study, monkeypatch):
    """Commands that were started, each of them run to its end in this process."""
    commands = []

    def launch(arguments, log, environment):
        commands.append(list(arguments))
        return Here(arguments, log, environment)

    monkeypatch.setattr(study, "launch", launch)
    monkeypatch.setattr("esacl.runner.write_report", lambda *_: None)  # most of the time of so short a run
    return commands


@pytest.fixture
def recipe(tmp_path):
    """Writes a recipe; returns its path."""

    def write(text=RECIPE):
        path = tmp_path / "small.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def settings(study, path):
    return {point.label: point.settings for point in study.read_recipe(path).points}


def test_a_row_is_run_at_every_point_of_the_axes_unless_it_says_otherwise(study, recipe):
    points = study.read_recipe(recipe()).points
    assert [point.label for point in points] == ["finetune", "er, batch_size 8", "er, batch_size 16"]
    assert [point.slug for point in points] == ["finetune", "er-batch_size-8", "er-batch_size-16"]
    text = RECIPE + '"update.momentum" = [0.1, 0.9]\n'
    assert len(study.read_recipe(recipe(text)).points) == 1 + 2 * 2


def test_a_row_wins_over_the_base_and_removes_from_it(study, recipe):
    rows = settings(study, recipe(RECIPE.replace('name = "er"', 'name = "er"\nset = { "train.epochs" = 3 }')))
    assert "objective.buffer" not in rows["finetune"]
    assert rows["finetune"]["train.epochs"] == 1
    assert rows["er, batch_size 8"]["train.epochs"] == 3
    assert rows["er, batch_size 8"]["objective.buffer"] == 10
    assert rows["er, batch_size 16"]["train.batch_size"] == 16
    assert all(row["update.momentum"] == 0.5 and row["machine.threads"] == 1 for row in rows.values())


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("title =", "titel =", "unknown key of the recipe 'titel'. Did you mean 'title'?"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "seeds = [0, 0] is not allowed"),
        ("seeds = [0, 1]", "seeds = 3", "seeds = 3 is not allowed in a recipe. Allowed: a list"),
        ("epochs = 1", "epoch = 1", "unknown setting of base 'epoch'. Did you mean 'epochs'?"),
        ("epochs = 1", "epochs = 0", "train.epochs = 0 is not allowed"),
        ("epochs = 1", "seed = 1", "unknown setting of base 'seed'"),
        ('name = "er"', 'name = "Finetune"\naxes = {}', "'Finetune' has the name or the folder of 'finetune'"),
        ('name = "er"', "", "a row of the recipe has the name None"),
        ('name = "er"', 'name = "er"\nbatch_size = 4', "row 'er' sets 'batch_size', which is an axis too"),
        ('name = "er"', 'name = "er"\naxes = { epochs = 3 }', "axis epochs = 3 is not allowed"),
        ('name = "er"', 'name = "er"\naxes = { momentum = [3] }', "unknown axis of row 'er' 'momentum'"),
        ('name = "er"', 'name = "er"\nset = { "update.momentun" = 1 }', "Did you mean 'momentum'?"),
        ('name = "er"', 'name = "er"\nset = { update.momentum = 1 }', "in quotes"),
        ('"update.momentum" = 0.5', '"train.epochs" = 2', "'train.epochs' is given twice in base"),
        ('buffer = ""\n', "", "row 'finetune': method 'finetune' has no use for --buffer"),
        ('method = "er"', 'method = "err"', "unknown method 'err'"),
        ("[[rows]]", "[[row]]", "unknown key of the recipe 'row'"),
        ("[base]", "[base", "cannot read the config file"),
        (RECIPE, 'title = "nothing"', "has no rows"),
    ],
)
def test_a_bad_recipe_is_told_before_anything_starts(study, recipe, launched, tmp_path, capsys, old, new, told):
    assert old in RECIPE
    assert study.main([str(recipe(RECIPE.replace(old, new))), "--out", str(tmp_path / "out")]) == 2
    assert told in capsys.readouterr().err
    assert not launched
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["--seeds", "a"], ["--seeds", "1,1"], ["--jobs", "0"], ["--only", "derpp"]])
def test_bad_words_on_the_command_line_are_told(study, recipe, launched, tmp_path, capsys, words):
    assert study.main([str(recipe()), "--out", str(tmp_path / "out"), *words]) == 2
    assert words[1].split(",")[0] in capsys.readouterr().err
    assert not launched


def test_what_is_finished_is_not_repeated_and_what_was_changed_is(study, recipe, launched, tmp_path, capsys):
    out = tmp_path / "out"
    text = RECIPE.replace("[8, 16]", "[16]")
    words = [str(recipe(text)), "--out", str(out)]
    assert study.main([*words, "--dry-run"]) == 0
    assert "4 of 4 runs to do" in capsys.readouterr().err
    assert not out.exists()
    assert study.main([*words, "--only", "finetune"]) == 0
    assert len(launched) == 2
    assert study.main(words) == 0
    assert len(launched) == 4
    capsys.readouterr()
    assert study.main([*words, "--plot"]) == 0
    assert len(launched) == 4
    assert (out / "cost.png").stat().st_size > 10_000
    table = (out / "table.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    assert table.startswith("# Small digits\n\nAs few as possible.\n")
    line = next(line for line in table.splitlines() if line.startswith("| er, batch_size 16 "))
    assert line.count("±") == 4  # accuracy and forgetting, Task-IL and Class-IL
    rows = list(csv.DictReader((out / "figures.csv").open(encoding="utf-8")))
    assert [(row["row"], row["batch_size"], row["seed"]) for row in rows[:3]] == [
        ("finetune", "", "0"),
        ("finetune", "", "1"),
        ("er", "16", "0"),
    ]
    results = json.loads((out / "er-batch_size-16" / "1" / "results.json").read_text())
    assert float(rows[-1]["class_il"]) == results["class_il"]
    assert float(rows[-1]["flops_executed"]) == results["flops"]["executed"]

    recipe(text.replace("= 0.5", "= 0.4"))
    assert study.main([*words, "--only", "finetune", "--seeds", "1"]) == 0
    assert len(launched) == 5
    assert (launched[-1][0], launched[-1][-1]) == ("run", "--overwrite")
    assert "momentum = 0.4" in (out / "finetune" / "1" / "config.toml").read_text()
    assert "| er, batch_size 16 | 0 of 1 |" in (out / "table.md").read_text(encoding="utf-8")  # not of these settings


def test_an_interrupted_run_is_continued(study, recipe, launched, tmp_path):
    path, out = recipe(RECIPE.replace("seeds = [0, 1]", "seeds = [0]")), tmp_path / "out"
    point = study.read_recipe(path).points[0]
    run = study.Run(point, 0, out / point.slug / "0")
    with start(point.config(0), run.path) as begun:
        next(event for event in begun.events() if type(event).__name__ == "TaskDone")
    run.beside("asked.json").write_text(run.wish())
    assert run.state() == "begun"
    assert study.main([str(path), "--out", str(out)]) == 0
    assert launched[0] == ["resume", str(run.path)]
    assert run.state() == "finished"


def test_a_run_of_somebody_else_is_not_touched(study, recipe, launched, tmp_path, capsys):
    path, out = recipe(), tmp_path / "out"
    (out / "finetune" / "1").mkdir(parents=True)
    (out / "finetune" / "1" / "config.toml").write_text("")
    assert study.main([str(path), "--out", str(out)]) == 2
    assert "holds a run that no study began" in capsys.readouterr().err
    assert not launched


def test_a_failed_run_shows_its_last_words_and_the_others_go_on(study, recipe, launched, tmp_path, capsys):
    text = RECIPE.replace("seeds = [0, 1]", "seeds = [0]").replace("limit_per_class = 8", "")
    bad = text.replace('name = "er"', 'name = "er"\nlimit_per_class = 8').replace('"finetune"\nbuffer', '"er"\nbuffer')
    bad = bad.replace('buffer = ""', 'stream = "folder:/nowhere"')
    assert study.main([str(recipe(bad)), "--out", str(tmp_path / "out"), "--jobs", "1"]) == 1
    assert len(launched) == 3
    told = capsys.readouterr()
    assert "FAILED finetune, seed 0" in told.err
    assert "the last words of the run" in told.err
    assert "1 of 3 runs failed" in told.err
    assert "| finetune          | 0 of 1 |" in told.out


def test_runs_are_processes_of_their_own_that_end_with_the_study(study, recipe, tmp_path, monkeypatch, capsys):
    processes = []
    real = study.launch

    def launch(*arguments):
        processes.append(real(*arguments))
        return processes[-1]

    def interrupt(seconds):
        if processes:
            raise KeyboardInterrupt

    monkeypatch.setattr(study, "launch", launch)
    monkeypatch.setattr(study, "sleep", interrupt)
    words = [str(recipe()), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert study.main(words) == 130
    assert f"Continue with: python benchmarks/study.py {words[0]}" in capsys.readouterr().err
    assert all(process.returncode is not None for process in processes)
    monkeypatch.undo()
    assert study.main([*words, "--only", "finetune", "--seeds", "0"]) == 0
    assert "report:" in (tmp_path / "out" / "finetune" / "0.log").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_repository_can_be_run(study, path):
    assert study.read_recipe(path).points
