"""Rows against one of them, seed by seed: what the interval supports is marked, in every format."""

import csv
import json
from io import StringIO

import pytest
from rich.console import Console

from esacl.cli import main
from esacl.grid.study import read_study
from esacl.report.differences import difference_table, differences
from esacl.report.formats import as_latex, as_markdown, as_rich
from esacl.report.load import load_run
from esacl.report.page import render
from esacl.report.rows import rows_of
from tests.reference import seeds as naive
from tests.report.fabricate import results, write_run
from tests.report.fabricate_grid import write_grid

BASE = [0.70, 0.74, 0.72, 0.71, 0.73]
CLEAR = [0.72, 0.765, 0.74, 0.728, 0.752]  # above in every seed by about as much
UNCLEAR = [0.75, 0.72, 0.73, 0.69, 0.74]


def write(folder, method, scores):
    for seed, score in enumerate(scores):
        write_run(folder / f"{method}-{seed}", results(method, seed=seed) | {"task_il": score})


def lines(folder):
    return rows_of([load_run(path) for path in sorted(folder.iterdir())])


@pytest.fixture
def runs(tmp_path):
    """Five seeds of a base, of one row that is above it in each of them, and of one that is not."""
    for method, scores in (("er", BASE), ("der++", UNCLEAR), ("esacl-der++", CLEAR)):
        write(tmp_path / "runs", method, scores)
    return tmp_path / "runs"


def task_il(table):
    place = table.head.index("Task-IL (%)")
    return {row[0].text: (row[place].text, row[place].bold) for row in table.rows}


def test_only_what_the_interval_supports_is_marked(runs):
    (table,) = differences(lines(runs), "er")
    mean, half = naive.interval([one - other for one, other in zip(CLEAR, BASE)])
    found = task_il(table)
    assert found["esacl-der++"] == (f"+{100 * mean:.1f}† ±{100 * half:.1f}", True)
    assert found["der++"][0].startswith("+0.6 ±")
    assert not found["der++"][1]
    assert "er" not in found
    assert "difference from er" in table.title
    assert "95% interval" in table.caption
    assert "too few" not in table.caption


def test_seeds_are_paired_and_those_without_a_partner_are_left_out(tmp_path):
    write(tmp_path, "er", BASE[:3])
    write(tmp_path, "esacl-der++", CLEAR)
    (table,) = differences(lines(tmp_path), "er")
    mean, half = naive.interval([one - other for one, other in zip(CLEAR[:3], BASE)])
    assert task_il(table)["esacl-der++"][0].replace("†", "") == f"+{100 * mean:.1f} ±{100 * half:.1f}"
    assert table.rows[0][1].text == "3"
    assert "Fewer than 5 common seeds: too few to say that a claim holds." in table.caption


def test_with_one_common_seed_there_is_no_interval_and_that_is_said(tmp_path):
    write(tmp_path, "er", BASE[:1])
    write(tmp_path, "esacl-der++", CLEAR)
    (table,) = differences(lines(tmp_path), "er")
    assert task_il(table)["esacl-der++"] == ("+2.0", False)
    assert "With one common seed there is no interval." in table.caption


def test_differences_fit_80_columns_and_every_format_has_them(runs):
    found = differences(lines(runs), "er")
    drawn = StringIO()
    Console(file=drawn, width=80).print(as_rich(found))
    assert "difference from er" in drawn.getvalue()
    assert max(map(len, drawn.getvalue().splitlines())) <= 80
    assert "+2.1†" in drawn.getvalue()
    assert "**+2.1† ±0.3**" in as_markdown(found)
    assert r"\textbf{+2.1$\dagger$ $\pm$0.3}" in as_latex(found)


def test_the_command_compares_with_the_row_that_is_named(runs, capsys):
    folders = [str(path) for path in sorted(runs.iterdir())]
    for format in ("rich", "markdown", "latex"):
        with pytest.raises(SystemExit) as ended:
            main(["table", *folders, "--against", "er", "--format", format])
        assert not ended.value.code
        assert "difference from er" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["table", *folders, "--against", "er", "--format", "csv"])
    rows = {row["row"]: row for row in csv.DictReader(StringIO(capsys.readouterr().out))}
    above = rows["esacl-der++"]
    mean, half = naive.interval([one - other for one, other in zip(CLEAR, BASE)])
    assert (above["against"], above["task_il_minus_row_seeds"]) == ("er", "5")
    ends = [float(above[f"task_il_minus_row{end}"]) for end in ("", "_low", "_high")]
    assert ends == pytest.approx([mean, mean - half, mean + half], rel=1e-4)
    assert rows["er"]["task_il_minus_row"] == ""


def test_a_row_that_is_not_there_is_told_with_those_that_are(runs, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["table", str(runs), "--against", "derpp"])
    assert ended.value.code == 2
    assert "unknown row to compare with 'derpp'. Did you mean 'der++'?" in capsys.readouterr().err


def test_without_a_name_the_first_dense_row_is_compared_with(runs):
    table = difference_table(lines(runs))
    assert table is not None
    assert table.title.endswith("difference from der++")
    assert difference_table([line for line in lines(runs) if line.label.startswith("esacl")]) is None


GRID = """
seeds = [0, 1]
methods = ["finetune", "er", "esacl-er"]
streams = ["split-digits"]
"""


@pytest.mark.parametrize(("more", "name"), [("", "finetune"), ('against = "er"\n', "er")])
def test_a_page_compares_with_the_first_dense_row_or_the_recipes(tmp_path, more, name):
    write_grid(tmp_path / "grid", more + GRID)
    page = render(read_study([tmp_path / "grid"]), tmp_path / "grid")
    assert f"difference from {name}</h2>" in page
    assert "the interval excludes 0" in page


SPARSITIES = """
seeds = [0, 1]
against = "replay"
[base]
stream = "split-digits"
[axes]
sparsity = [0.8, 0.9]
[[rows]]
name = "replay"
method = "esacl-er"
[[rows]]
name = "logits"
method = "esacl-der++"
[[rows]]
name = "dense"
method = "er"
axes = {}
"""


def test_a_row_with_axes_is_compared_with_at_the_same_axis_values(tmp_path, capsys):
    cells = write_grid(tmp_path / "grid", SPARSITIES)
    scores = {cell.path: json.loads((cell.path / "results.json").read_text())["task_il"] for cell in cells}
    study = read_study([tmp_path / "grid"])
    table = difference_table(study.rows, study.against)
    assert table.title.endswith("difference from replay at the same sparsity")
    assert table.caption.endswith("Left out, as there is no replay at the same sparsity: dense.")
    folder = tmp_path / "grid"
    for level in ("0.8", "0.9"):
        gaps = [scores[folder / f"{row}-sparsity-{level}" / str(n)] for row in ("logits", "replay") for n in (0, 1)]
        mean, half = naive.interval([gaps[0] - gaps[2], gaps[1] - gaps[3]])
        told = task_il(table)[f"logits, sparsity {level}"][0].replace("†", "")
        assert told == f"{100 * mean:+.1f} ±{100 * half:.1f}"
    assert set(task_il(table)) == {"logits, sparsity 0.8", "logits, sparsity 0.9"}
    assert "difference from replay at the same sparsity</h2>" in render(study, folder)
    with pytest.raises(SystemExit):
        main(["table", str(folder), "--against", "replay", "--format", "csv"])
    rows = {row["row"]: row for row in csv.DictReader(StringIO(capsys.readouterr().out))}
    assert rows["logits, sparsity 0.9"]["against"] == "replay, sparsity 0.9"
    assert rows["dense"]["against"] == ""


def test_a_place_that_is_written_out_is_what_every_row_is_compared_with(tmp_path):
    write_grid(tmp_path / "grid", SPARSITIES.replace('"replay"', '"replay, sparsity 0.9"', 1))
    study = read_study([tmp_path / "grid"])
    table = difference_table(study.rows, study.against)
    assert table.title.endswith("difference from replay, sparsity 0.9")
    assert {"logits, sparsity 0.8", "replay, sparsity 0.8", "dense"} <= set(task_il(table))
