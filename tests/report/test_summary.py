"""The terminal shows every run, and the mean and spread of several seeds."""

from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from esacl.report import load_run, summary_table
from esacl.report.rows import rows_of, spread
from tests.report.fabricate import NASTY, config, results, write_run, write_runs


def shown(records, width):
    text = StringIO()
    Console(width=width, file=text).print(summary_table(records))
    return text.getvalue()


def rows(text):
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.fixture
def der(tmp_path):
    return load_run(write_run(tmp_path / "der"))


@pytest.fixture
def seeds(tmp_path):
    return [load_run(run) for run in write_runs(tmp_path, ["er", "der++"], seeds=3, tasks=5)]


def test_a_run_is_one_line_with_its_numbers(der):
    line = next(line for line in rows(shown([der], 120)) if line[0] == "der++")
    accuracy, forgotten = der.accuracy, der.forgetting
    assert line[1] == "0"
    wanted = [accuracy.task_il, accuracy.class_il, forgotten.task_il, forgotten.class_il]
    assert line[2:6] == [f"{100 * value:.1f}" for value in wanted]
    assert line[6:] == ["720.0", "720.0", "930.0", "100.0", "63.1"]
    assert shown([der], 120).startswith("split-digits, 5 tasks, test split"), "the stream stands above the table"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_its_terminal_and_cuts_no_number(seeds, width):
    text = shown(seeds, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for record in seeds:
        assert f"{100 * record.accuracy.task_il:.1f}" in text
        assert f"{100 * record.accuracy.class_il:.1f}" in text
    words = ["Task-IL", "Class-IL", "Forgetting", "Time", "executed", "Capacity", "paper", "sparse"]
    room = {60: 4, 80: 6, 120: 8, 200: 8}
    assert [word for word in words if word in text] == words[: room[width]]
    runs = [line for line in text.splitlines() if line.lstrip().startswith(("er ", "der++ "))]
    assert len(runs) == len(seeds) + 2, "one line for a run, and one for each mean"


def test_several_seeds_are_followed_by_mean_and_sample_deviation(seeds):
    mean = next(line for line in rows(shown(seeds, 80)) if line[:2] == ["er", "mean"])
    for column, setting in ((0, "task_il"), (1, "class_il")):
        values = 100 * np.array([record.accuracy.of(setting) for record in seeds[:3]])
        assert mean[2 + 2 * column] == f"{values.mean():.1f}"
        assert mean[3 + 2 * column] == f"±{values.std(ddof=1):.1f}", "beside the mean"


def test_spread_agrees_with_numpy():
    values = np.random.default_rng(0).uniform(size=7)
    found = spread(list(values))
    assert found.mean == pytest.approx(values.mean(), abs=1e-12)
    assert found.std == pytest.approx(values.std(ddof=1), abs=1e-12)


def test_what_is_not_known_is_a_dash(tmp_path):
    record = load_run(write_run(tmp_path / "packnet", results("packnet")))
    line = next(line for line in rows(shown([record], 120)) if line[0] == "packnet")
    assert line[3] == line[5] == "–"


def test_markup_in_a_name_is_text(tmp_path):
    found = results() | {"method": "[red]er[/red]"}
    assert "[red]er[/red]" in shown([load_run(write_run(tmp_path / "run", found))], 200)
    found = results() | {"method": NASTY}
    assert "<script>" in shown([load_run(write_run(tmp_path / "nasty", found))], 200)


def test_runs_that_differ_in_a_setting_are_not_averaged(tmp_path):
    runs = []
    for place, buffer in enumerate((100, 200)):
        found = results("er", seed=place)
        settings = config(found)
        settings["objective"]["buffer"] = buffer
        runs.append(load_run(write_run(tmp_path / str(buffer), found, settings)))
    assert [row.label for row in rows_of(runs)] == ["er (buffer 100)", "er (buffer 200)"]
    assert "mean" not in shown(runs, 120)


def test_another_machine_or_data_folder_is_the_same_experiment(tmp_path):
    runs = []
    for seed, device in enumerate(("cpu", "cuda")):
        found = results("er", seed=seed)
        settings = config(found)
        settings["machine"]["device"] = device
        settings["stream"]["data_dir"] = f"/data/{device}"
        runs.append(load_run(write_run(tmp_path / device, found, settings)))
    assert [len(row.records) for row in rows_of(runs)] == [2]


def test_runs_with_and_without_a_pruning_drop_are_one_experiment(tmp_path):
    runs = []
    for seed, measured in enumerate((None, False, True)):
        found = results("esacl-er", seed=seed) | ({"pruning_drop": {"task_il": [0.02, 0.04]}} if measured else {})
        settings = config(found)
        settings["train"] |= {} if measured is None else {"unpruned": measured}
        runs.append(load_run(write_run(tmp_path / str(measured), found, settings)))
    assert [(row.label, len(row.records)) for row in rows_of(runs)] == [("esacl-er", 3)]
    assert [run.pruning_drop.task_il for run in runs] == [None, None, pytest.approx(0.03)]


def test_streams_are_kept_apart_and_seeds_in_order(tmp_path):
    order = [("a", 2), ("b", 0), ("a", 1)]
    runs = [load_run(write_run(tmp_path / f"{s}{seed}", results("er", s, seed))) for s, seed in order]
    assert [(row.stream, [run.seed for run in row.records]) for row in rows_of(runs)] == [("a", [1, 2]), ("b", [0])]
    text = shown(runs, 120)
    assert text.index("a, 5 tasks") < text.index("b, 5 tasks")
