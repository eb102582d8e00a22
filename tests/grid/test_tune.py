"""`esacl tune`: what it prints and writes, what it trains, and how it ends."""

import json

import pytest
from rich.console import Console

from esacl.cli import main
from esacl.grid.events import RunFailed
from esacl.grid.plan import lay_out
from esacl.grid.recipe import read_recipe
from esacl.grid.study import read_study
from tests.grid.tuning import TUNING, fabricate, read

LONG = TUNING.replace('name = "er"', 'name = "replay with a name that is long, as names of rows may be"').replace(
    "[0.01, 0.03, 0.1, 0.3]", '[0.01, 0.03], "update.weight_decay" = [0.0, 0.000123456]'
)
TINY = TUNING[: TUNING.index('[[rows]]\nname = "ewc"')].replace("[0.01, 0.03, 0.1, 0.3]", "[0.03, 1000000.0]")
GOOD = ((70, 50), (72, 50))


@pytest.fixture
def tune(tmp_path, capsys):
    """Runs the command; returns exit code and both outputs."""

    def run(*words):
        try:
            main(["tune", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out"), *words])
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def failing(monkeypatch):
    """Training that fails for every run that is left."""

    def fail(diverged):
        def train(cells, *_):
            return [RunFailed(cell, "made up", diverged) for cell in cells]

        monkeypatch.setattr("esacl.cli.tune.train_cells", train)

    return fail


def test_the_chosen_settings_are_a_recipe_for_the_test_split(tmp_path, tune):
    tuning = read(tmp_path / "small.toml")
    best = {"er, lr 0.1": GOOD, "ewc, lr 0.01, objective.lam 3.0": GOOD}
    fabricate(tuning, tmp_path / "out", best)
    code, told, _ = tune()
    assert code == 0
    assert f"next: esacl grid {tmp_path / 'out' / 'chosen.toml'} --out {tmp_path / 'out-chosen'}" in told
    recipe = read_recipe(tmp_path / "out" / "chosen.toml")
    assert (recipe.seeds, [point.label for point in recipe.points]) == ([0, 1], ["er", "ewc"])
    trials = {trial.label: trial for trial in tuning.recipe.points}
    for point, label in zip(recipe.points, best):
        assert point.settings == {**trials[label].settings, "train.split": "test"}
    assert recipe.points[0].config(1).options["update"] == {"momentum": 0.5, "lr": 0.1}
    assert "objective.buffer" not in recipe.points[1].settings


def test_axes_lists_and_removed_settings_are_chosen_as_they_were_tried(tmp_path, tune):
    text = """
    seeds = [0, 1]
    methods = ["er", "esacl", "finetune"]
    sparsities = [0.5, 0.8]
    base = { buffer = 10, threads = 2, set = { "update.momentum" = 0.5 } }
    tune = { lr = [0.01, 0.03] }
    axes = { batch_size = [8, 16] }
    [[rows]]
    set = { "update.momentum" = "" }
    threads = ""
    """
    tuning = read(tmp_path / "small.toml", text)
    fabricate(tuning, tmp_path / "out", {})
    assert tune()[0] == 0
    found = {point.label: point.settings for point in read_recipe(tmp_path / "out" / "chosen.toml").points}
    assert found == {row.name: {**row.trials[0].settings, "train.split": "test"} for row in tuning.rows}
    assert len(found) == 8


def test_every_trial_is_in_the_page_and_in_the_document(tmp_path, tune, failing):
    tuning = read(tmp_path / "small.toml")
    fabricate(tuning, tmp_path / "out", {"er, lr 0.1": GOOD, "er, lr 0.3": ((99, 99), None)})
    failing(diverged=True)
    code, told, news = tune("--json")
    assert code == 0
    assert "1 runs diverged; their trials count as the worst." in news
    assert told == (tmp_path / "out" / "tuning.json").read_text("utf-8")
    row = json.loads(told)["rows"][0]
    assert (row["row"], row["chosen"], row["within_1_point"], row["at_an_end"]) == ("er", {"lr": 0.1}, 1, {})
    assert [(trial["settings"]["lr"], trial["finished"], trial["chosen"]) for trial in row["trials"]] == [
        (0.01, 2, False),
        (0.03, 2, False),
        (0.1, 2, True),
        (0.3, 1, False),
    ]
    assert row["trials"][2]["score"]["mean"] == pytest.approx(0.605)
    assert row["trials"][3]["score"] is None

    page = (tmp_path / "out" / "tuning.md").read_text("utf-8")
    assert page.startswith("# Small tuning\n\nAs few as possible.\n\n4 trials for every row, on the validation split")
    assert "| **lr 0.1** | **2** | **71.0 ±1.4** | **50.0 ±0.0** | **60.5 ±0.7** | **yes** |" in " ".join(page.split())
    assert "Trials with a seed that failed, and thus the worst: 1." in page
    assert "## Failed\n\n- er, lr 0.3, seed 1: training diverged: made up." in page
    assert "Validation images a class: 2." in page
    assert "values tried" not in page, "er chose a value in the middle, and two values have no middle"


@pytest.mark.parametrize("text", [TUNING, LONG])
def test_tables_fit_into_80_columns(tmp_path, tune, monkeypatch, text):
    monkeypatch.setattr("esacl.cli.tune.TEXT", Console(width=80))
    fabricate(read(tmp_path / "small.toml", text), tmp_path / "out", {})
    _, told, _ = tune("--all")
    shown = [line for line in told.splitlines() if not line.startswith(("written:", "next:"))]
    assert max(map(len, shown)) <= 80
    assert "…" not in told
    for heading in ("Task-IL", "Class-IL", "Score", "within", "end"):
        assert heading in told
    assert " 10.0 " in told


def test_a_row_is_one_line_and_all_trials_are_shown_when_asked_for(tmp_path, tune):
    tuning = read(tmp_path / "small.toml")
    fabricate(tuning, tmp_path / "out", {"er, lr 0.1": GOOD})
    short, whole = tune()[1], tune("--all")[1]
    assert "er: lr 0.1" in short
    assert "lr 0.03" not in short
    assert [line for line in whole.splitlines() if line.startswith(" lr 0.03 ")]
    assert len(short.splitlines()) <= len(whole.splitlines()) - sum(len(row.trials) for row in tuning.rows)


def test_a_row_without_a_finished_trial_is_left_out_and_told(tmp_path, tune, failing):
    lost = {f"er, lr {lr}": (None, None) for lr in (0.01, 0.03, 0.1, 0.3)}
    fabricate(read(tmp_path / "small.toml"), tmp_path / "out", lost)
    failing(diverged=True)
    code, told, news = tune()
    assert code == 1
    assert "no trial of er finished with every seed, so chosen.toml is without it." in news
    assert "er: every trial failed" in " ".join(told.split())
    assert [point.row for point in read_recipe(tmp_path / "out" / "chosen.toml").points] == ["ewc"]


def test_what_failed_but_did_not_diverge_may_change_the_choice(tmp_path, tune, failing):
    fabricate(read(tmp_path / "small.toml"), tmp_path / "out", {"er, lr 0.3": (None, (10, 10))})
    failing(diverged=False)
    code, _, news = tune()
    assert code == 1
    assert "1 runs failed, so the choice may change; the same command tries them again." in news


def test_where_nothing_is_chosen_no_recipe_of_an_earlier_choice_is_left(tmp_path, tune, failing):
    read(tmp_path / "small.toml")
    out = tmp_path / "out"
    out.mkdir()
    (out / "chosen.toml").write_text("title = 'earlier'")
    failing(diverged=False)
    code, told, _ = tune()
    assert code == 1
    assert "next:" not in told
    assert not (out / "chosen.toml").exists()


def test_a_dry_run_shows_the_trials_and_trains_nothing(tmp_path, tune):
    read(tmp_path / "small.toml")
    code, told, news = tune("--dry-run")
    assert (code, news) == (0, "")
    assert "ewc, lr 0.03, objective.lam 3.0" in told
    assert "2 rows × 4 trials × 2 seeds: 16 of 16 runs to do." in told
    assert not (tmp_path / "out").exists()


def test_a_tuning_on_digits_goes_on_where_it_stopped_and_is_read_as_a_grid(tmp_path, tune, monkeypatch):
    tuning = read(tmp_path / "small.toml", TINY)
    first = lay_out(tuning.recipe, tmp_path / "out")[0]

    def interrupted(cells, *words):
        from esacl.cli.grid_runs import train_cells

        train_cells(cells[:1], *words)
        raise SystemExit(130)

    with monkeypatch.context() as patch:
        patch.setattr("esacl.cli.tune.train_cells", interrupted)
        assert tune("--jobs", "1")[0] == 130
    assert not (tmp_path / "out" / "chosen.toml").exists()
    before = first.directory.results.stat().st_mtime_ns
    code, told, news = tune("--jobs", "1")
    assert code == 0
    assert "3 of 4 runs to do." in news
    assert "2 runs diverged; their trials count as the worst." in news
    assert first.directory.results.stat().st_mtime_ns == before
    assert "er: lr 0.03" in told
    assert read_recipe(tmp_path / "out" / "chosen.toml").points[0].settings["update.lr"] == 0.03
    study = read_study([tmp_path / "out"])
    assert (study.finished, study.wanted) == (2, 4)


def test_an_open_scheduler_elsewhere_is_refused_first(tune, tmp_path):
    read(tmp_path / "small.toml")
    code, _, news = tune("--scheduler", "tcp://10.0.0.1:8786")
    assert code == 2
    assert "--insecure" in " ".join(news.split())
    assert not (tmp_path / "out").exists()
