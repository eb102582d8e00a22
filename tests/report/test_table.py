"""Tables of many runs: means over seeds, the best in bold, the scale in words, the paper's numbers beside."""

import csv
from dataclasses import replace
from io import StringIO

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from esacl.cli import main
from esacl.report.figures.themes import save_figures
from esacl.report.formats import as_csv, as_latex, as_markdown, as_rich
from esacl.report.load import load_run
from esacl.report.rows import Row, rows_of
from esacl.report.table import numbers, tables
from tests.report.fabricate import config, results, write_run


def write(folder, method, seed, stream="split-cifar100", tasks=10, task_il=None, **settings):
    found = results(method, stream, seed, tasks) | ({} if task_il is None else {"task_il": task_il})
    tables = config(found)
    for path, value in settings.items():
        part, _, key = path.partition("__")
        tables.setdefault(part, {})[key] = value
    if method == "mtl":
        del tables["objective"]["buffer"]
    return write_run(folder / f"{method}-{seed}", found, tables)


@pytest.fixture
def lines(tmp_path):
    """Two rivals of two seeds, and the upper bound."""
    net = {"net__backbone": "resnet10", "net__width": 16, "stream__limit_per_class": 50, "objective__buffer": 500}
    for seed, (low, high) in enumerate([(0.5, 0.6), (0.52, 0.64)]):
        write(tmp_path, "er", seed, task_il=low, **net)
        write(tmp_path, "esacl-der++", seed, task_il=high, **net)
        write(tmp_path, "mtl", seed, task_il=0.99, **net)
    return rows_of([load_run(path) for path in sorted(tmp_path.iterdir())])


def column(table, name):
    place = table.head.index(name)
    return {row[0].text: row[place] for row in table.rows}


def test_a_table_has_mean_and_spread_and_number_of_seeds(lines):
    (table,) = tables(lines)
    assert {name: entry.text for name, entry in column(table, "Task-IL (%)").items()} == {
        "er": "51.0 ±1.4",
        "esacl-der++": "62.0 ±2.8",
        "mtl": "99.0 ±0.0",
    }
    assert {entry.text for entry in column(table, "seeds").values()} == {"2"}
    assert column(table, "FLOPs executed (TFLOP)")["er"].text == "0.48"  # cost without a spread


def test_the_best_stands_out_and_joint_training_does_not_compete(lines):
    (table,) = tables(lines)
    assert [name for name, entry in column(table, "Task-IL (%)").items() if entry.bold] == ["esacl-der++"]
    assert [name for name, entry in column(table, "FLOPs executed (TFLOP)").items() if entry.bold] == ["er"]
    assert "the best of all but mtl" in table.caption
    assert "**62.0 ±2.8**" in as_markdown([table])
    assert r"\textbf{62.0 $\pm$2.8}" in as_latex([table])


def test_the_caption_states_the_scale_and_where_the_paper_had_another(lines):
    (table,) = tables(lines)
    told = "images a class 50; epochs a task 10; network resnet10; width 16; buffer 500; tasks 10; split test."
    assert told in table.caption
    (beside,) = tables(lines, paper=True)
    for deviation in (
        "images a class 50 (in the paper all)",
        "epochs a task 10 (in the paper 80)",
        "network resnet10 (in the paper resnet18)",
        "width 16 (in the paper 64)",
        "buffer 500;",
        "for orientation, not for comparison",
    ):
        assert deviation in beside.caption


def test_where_rows_differ_in_scale_the_caption_says_which(tmp_path):
    write(tmp_path, "er", 0, objective__buffer=50)
    write(tmp_path, "der++", 0, objective__buffer=100)
    (table,) = tables(rows_of([load_run(path) for path in sorted(tmp_path.iterdir())]))
    assert "buffer 100 (der++), 50 (er)" in table.caption


def test_the_papers_numbers_stand_beside_the_measured_ones(lines):
    (table,) = tables(lines, paper=True)
    assert {name: entry.text for name, entry in column(table, "Task-IL in the paper (%)").items()} == {
        "er": "68.2 ±0.2",
        "esacl-der++": "72.9 ±0.6",
        "mtl": "80.8 ±0.3",
    }
    assert column(table, "FLOPs in the paper (PFLOP)")["esacl-der++"].text == "0.59"
    assert "Class-IL in the paper (%)" not in table.head  # the paper has it for other rows only
    rows = list(csv.DictReader(StringIO(as_csv(numbers(lines, paper=True)))))
    assert [float(row["in_the_paper_task_il"]) for row in rows] == [0.6823, 0.7294, 0.8082]
    assert float(rows[0]["task_il"]) == pytest.approx(0.51)
    assert float(rows[0]["task_il_std"]) == pytest.approx(0.0141, abs=1e-4)


def test_a_variant_has_the_numbers_of_its_ablation_or_none(tmp_path):
    off = {"sa": {"sharpness": False}, "both": {"sharpness": False, "polytope": False}}
    for name, switches in off.items():
        found = results("esacl-er", "split-cifar100", 0, 10)
        write_run(tmp_path / name, found, config(found) | {"sparsity": {"level": 0.8, **switches}})
    without_sa, without_both = (tables(rows_of([load_run(tmp_path / name)]), paper=True)[0] for name in ("sa", "both"))
    assert column(without_sa, "Class-IL in the paper (%)")["esacl-er"].text == "26.5"
    assert "Task-IL in the paper (%)" not in without_sa.head
    assert not [name for name in without_both.head if "in the paper" in name]


@pytest.mark.parametrize(
    ("method", "switch", "figure", "whole", "without"),
    [
        ("esacl-er", ("sparsity", "sharpness"), "Class-IL", "49.6", "26.5"),  # Table 2
        ("esacl-der++", ("sparsity", "sharpness"), "Task-IL", "72.9 ±0.6", "–"),  # Table 1
        ("esacl-der++", ("selection", "support"), "Task-IL", "72.5", "72.0"),  # Table 3
        ("esacl-er", ("selection", "support"), "Task-IL", "70.5 ±0.3", "–"),
        ("esacl-ewc", ("selection", "support"), "Task-IL", "61.6 ±0.6", "–"),
    ],
)
def test_an_ablation_is_beside_the_table_of_the_method_that_it_is_of(tmp_path, method, switch, figure, whole, without):
    found = results(method, "split-cifar100", 0, 10)
    slot, option = switch
    for name, on in (("whole", True), ("without", False)):
        settings = config(found) | {"sparsity": {"level": 0.8}, "selection": {"keep": 0.5}}
        settings[slot] = settings[slot] | {option: on}
        write_run(tmp_path / name, found, settings)
    lines = [
        replace(line, label=name) for name in ("whole", "without") for line in rows_of([load_run(tmp_path / name)])
    ]
    (table,) = tables(lines, paper=True)
    told = column(table, f"{figure} in the paper (%)")
    assert (told["whole"].text, told["without"].text) == (whole, without)
    rows = list(csv.DictReader(StringIO(as_csv(numbers(lines, paper=True)))))
    key = f"in_the_paper_{figure.lower().replace('-', '_')}"
    assert f"{100 * float(rows[0][key]):.1f}" == whole.split()[0]


def test_figures_of_a_stream_with_other_numbers_of_tasks_have_own_names(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda _, buffer, **__: buffer.write(b"a drawing"))
    for tasks in (2, 3):
        write(tmp_path / f"{tasks}", "er", 0, stream="split-digits", tasks=tasks)
    unfinished = Row("er, lr 0.1", (), 1, "split-digits", "test")
    lines = [unfinished, *rows_of([load_run(path) for path in sorted(tmp_path.glob("*/*"))])]
    written = [path.name for path in save_figures(lines, tmp_path / "figures")]
    assert len(written) == len({*written}) == len([*(tmp_path / "figures").iterdir()])
    assert {f"split-digits-test-{tasks}-tasks-accuracy-over-flops-task-il.svg" for tasks in (2, 3)} <= {*written}


@pytest.mark.parametrize("width", [60, 71, 80, 97, 120, 160])
def test_in_any_terminal_every_piece_names_its_rows_and_cuts_no_number(lines, width):
    text = StringIO()
    Console(file=text, width=width).print(as_rich(tables(lines, paper=True)))
    drawn = text.getvalue().splitlines()
    pieces = sum(line.split()[:1] == ["row"] for line in drawn)
    assert pieces >= 2 or width > 150
    assert sum(line.split()[:1] == ["esacl-der++"] for line in drawn) == pieces
    assert "…" not in text.getvalue()
    assert max(map(len, drawn)) <= width


def test_streams_are_tables_of_their_own(tmp_path):
    write(tmp_path / "a", "er", 0)
    write(tmp_path / "b", "er", 0, stream="split-digits", tasks=5)
    found = tables(rows_of([load_run(path) for path in sorted(tmp_path.glob("*/*"))]), paper=True)
    assert [table.title for table in found] == [
        "split-cifar100, 10 tasks, test split",
        "split-digits, 5 tasks, test split",
    ]
    assert "The paper has no split-digits" in found[1].caption


def test_latex_escapes_what_it_would_take_for_commands(tmp_path):
    write_run(tmp_path / "run", results("50% & α_1"))
    text = as_latex(tables(rows_of([load_run(tmp_path / "run")])))
    assert r"50\% \& $\alpha$\_1" in text
    assert text.count(r"\begin{tabular}{lr") == 1


@pytest.mark.parametrize("form", ["rich", "markdown", "latex", "csv"])
def test_the_command_writes_every_format(lines, tmp_path, capsys, form):
    target = tmp_path.parent / f"{tmp_path.name}.{form}"
    for words in ([], ["-o", str(target)]):
        with pytest.raises(SystemExit) as ended:
            main(["table", str(tmp_path), "--paper", "--format", form, *words])
        assert not ended.value.code
    told = capsys.readouterr().out
    assert "esacl-der++" in told
    assert "esacl-der++" in target.read_text(encoding="utf-8")
    assert str(target) in told.replace("\n", "")


def test_a_folder_without_runs_is_told(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["table", str(tmp_path)])
    assert ended.value.code == 2
    assert "there is no finished run in" in capsys.readouterr().err
