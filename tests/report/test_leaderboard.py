"""Runs of equal budgets, the best first, and the frontier of accuracy over what was spent."""

import csv
from io import StringIO

import pytest

from esacl.cli import main
from esacl.errors import RunError
from esacl.report.figures.cost_plot import COSTS, dots, front
from esacl.report.figures.themes import frontiers, themes
from esacl.report.formats import as_markdown
from esacl.report.leaderboard import boards, leaderboard, leaderboards
from esacl.report.load import load_run
from esacl.report.page import render, study_of_runs
from esacl.report.rows import rows_of
from tests.report.fabricate import config, results, write_run

SCORES = {
    ("er", "1e12flops"): [0.50, 0.52, 0.51],
    ("der++", "1e12flops"): [0.55, 0.575, 0.56],
    ("packnet", "1e12flops"): [0.9, 0.9, 0.9],
    ("er", "16e12flops"): [0.61, 0.60, 0.62],
    ("der++", "16e12flops"): [0.60, 0.59, 0.62],
}


@pytest.fixture
def runs(tmp_path):
    """Three seeds of each, and one run that had no budget."""
    for (method, budget), scores in SCORES.items():
        for seed, score in enumerate(scores):
            found = results(method, seed=seed)
            spent = float(budget.removesuffix("flops"))
            found["flops"]["executed"] = spent
            found["budget"] = {"asked": budget, "spent": spent, "epochs": [3.5] * 5}
            found["seconds"]["cpu"] = 12.5
            found |= {"task_il": score} if found["class_il"] is None else {"class_il": score}
            settings = config(found)
            del settings["train"]["epochs"]
            settings["train"]["budget"] = budget
            write_run(tmp_path / "runs" / f"{method}-{budget}-{seed}", found, settings)
    write_run(tmp_path / "runs" / "finetune", results("finetune"))
    return tmp_path / "runs"


def lines(folder):
    return rows_of([load_run(path) for path in sorted(folder.iterdir())])


def test_the_best_of_each_budget_is_first_and_those_without_class_il_are_last(runs):
    found = boards(lines(runs), "er")
    assert [board.budget for board in found] == ["1e12flops", "16e12flops"]
    assert [[row.records[0].method for row in board.rows] for board in found] == [
        ["der++", "er", "packnet"],
        ["er", "der++"],
    ]


def test_rows_are_compared_with_one_of_the_same_budget(runs):
    table = leaderboard(lines(runs), "er")
    rows = {(row[0].text, row[1].text): row[-1].text for row in table.rows}
    assert [gap for (name, budget), gap in rows.items() if name.startswith("der++") and budget == "1e12flops"] == [
        "+5.2† ±0.7"
    ]
    assert [gap for (name, _), gap in rows.items() if name.startswith("er ")] == ["–", "–"]
    assert "Left out, as they had no budget: finetune." in table.caption


def test_a_row_to_compare_with_that_is_not_there_leaves_no_columns(runs):
    table = leaderboard(lines(runs), "icarl")
    assert not [heading for heading in table.head if "−" in heading]
    assert {len(row) for row in table.rows} == {len(table.head)}


def test_runs_without_a_budget_are_refused_with_what_to_do_instead(tmp_path):
    write_run(tmp_path / "run")
    with pytest.raises(RunError, match="Train with --budget"):
        leaderboards(lines(tmp_path), "er")


def test_the_frontier_has_who_is_beaten_by_nobody_cheaper(runs):
    found = dots(lines(runs), "class_il", next(cost for cost in COSTS if cost.key == "flops_executed"))
    plain = [
        dot
        for dot in found
        if not any(
            (other.x.mean <= dot.x.mean and other.y.mean > dot.y.mean)
            or (other.x.mean < dot.x.mean and other.y.mean >= dot.y.mean)
            for other in found
        )
    ]
    assert {id(dot) for dot in front(found)} == {id(dot) for dot in plain}
    assert [dot.x.mean for dot in front(found)] == sorted(dot.x.mean for dot in plain)


def test_the_frontier_is_drawn_and_told(runs):
    (theme,) = frontiers(lines(runs))
    assert all("The dashed line is the frontier" in chart.caption for chart in theme.charts)
    assert [chart.slug for chart in theme.charts] == [
        "accuracy-over-flops-task_il",
        "accuracy-over-flops-class_il",
    ]
    assert theme.title in [other.title for other in themes(lines(runs))]


def test_the_page_and_every_format_have_the_table(runs, tmp_path, capsys):
    title = "split-digits, 5 tasks, test split: equal budgets"
    assert title in render(study_of_runs(sorted(runs.iterdir())), tmp_path)
    for words in (["--format", "markdown"], ["--format", "latex"], ["--format", "rich", "--out", "board.txt"]):
        with pytest.raises(SystemExit) as ended:
            main(["leaderboard", str(runs), *[str(tmp_path / word) if "." in word else word for word in words]])
        assert not ended.value.code
    told = capsys.readouterr().out
    assert told.count(title) == 2
    assert title in (tmp_path / "board.txt").read_text(encoding="utf-8")
    assert title in as_markdown(leaderboards(lines(runs), "er"))


def test_programs_get_plain_numbers_and_figures_are_written(runs, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["leaderboard", str(runs), "--format", "csv", "--figures", str(tmp_path / "figures")])
    text = capsys.readouterr().out
    found = list(csv.DictReader(StringIO(text[text.index("stream,") :])))
    first = found[0]
    assert (first["budget"], first["row"][:5], first["seeds"]) == ("1e12flops", "der++", "3")
    assert float(first["class_il_minus_row"]) == pytest.approx(0.0516667, abs=1e-6)
    assert float(first["seconds_cpu"]) == 12.5
    assert float(first["stored_bytes"]) == 1_243_000 + 2_471_936
    assert sorted(path.suffix for path in (tmp_path / "figures").iterdir()) == [".png", ".png", ".svg", ".svg"]
