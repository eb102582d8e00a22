"""Figures show the numbers of the run, follow the page's colours, and leave matplotlib as it was."""

import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from esacl.report import load_run
from esacl.report.figures.bar_plot import flops_by_row
from esacl.report.figures.over_tasks_plot import average_courses, average_over_tasks
from esacl.report.figures.run_accuracy import accuracy_over_time, heat_map
from esacl.report.figures.run_cost import flops_bars, memory_bars, time_bar
from esacl.report.figures.run_loss import training_loss
from esacl.report.figures.seeds_plot import final_accuracy
from esacl.report.figures.themes import run_themes, themes
from esacl.report.rows import rows_of
from tests.report.fabricate import NASTY, events, results, write_run, write_runs


@pytest.fixture
def der(tmp_path):
    return load_run(write_run(tmp_path / "der"))


@pytest.fixture
def many(tmp_path):
    return rows_of([load_run(run) for run in write_runs(tmp_path, ["er", "packnet", "mtl"], seeds=2, tasks=4)])


def texts(chart):
    return [element.text for element in ElementTree.fromstring(chart.svg("x")).iter("text")]


def run_charts(record):
    return [chart for theme in run_themes(record) for chart in theme.charts]


def row_charts(rows):
    return [chart for theme in themes(rows) for chart in theme.charts]


def test_every_figure_is_an_image_with_a_label_that_holds_numbers(der, many):
    for chart in run_charts(der) + row_charts(many):
        root = ElementTree.fromstring(chart.svg("x"))
        assert root.tag == "svg"
        assert root.get("role") == "img"
        assert re.search(r"\d", root.get("aria-label"))
        assert root.get("viewBox")
        assert root.get("width") is None


def test_every_figure_takes_its_colours_from_the_page(der, many):
    for chart in run_charts(der) + row_charts(many):
        svg = chart.svg("x")
        assert not re.findall(r"#[0-9a-f]{6}\b", svg), chart.title
        assert "var(--fg)" in svg or "var(--muted)" in svg
        assert not [word for word in ("font-family", "<style", "<metadata") if word in svg]


def test_ids_carry_the_prefix_and_every_reference_is_met(der):
    for chart in run_charts(der):
        svg = chart.svg("x")
        ids = re.findall(r'\bid="([^"]+)"', svg)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg)) <= set(ids)
    assert 'id="left-' in accuracy_over_time(der, "task_il").svg("left")


def test_the_matrix_writes_every_accuracy(der):
    written = texts(heat_map(der, "class_il"))
    for row in der.matrix["class_il"]:
        for value in row:
            assert f"{100 * value:.1f}" in written


def test_the_matrix_fades_tasks_to_come_and_outlines_the_one_just_trained(der):
    svg = heat_map(der, "task_il").svg("x")
    assert svg.count("fill:none;stroke:var(--fg)") == 5
    faded = [float(x) for x in re.findall(r"fill:var\(--heat\);opacity:([0-9.]+)", svg)]
    assert sum(opacity < 0.3 for opacity in faded) == 10
    assert sum(opacity > 0.7 for opacity in faded) == 15


def test_a_joint_run_has_one_row_without_outlines(tmp_path):
    record = load_run(write_run(tmp_path / "mtl", results("mtl")))
    chart = heat_map(record, "task_il")
    assert "all tasks" in texts(chart)
    assert "stroke:var(--fg)" not in chart.svg("x")


def test_a_cell_that_was_not_measured_is_a_dash(tmp_path):
    found = results()
    found["matrix"]["task_il"][0][4] = None
    record = load_run(write_run(tmp_path / "run", found))
    assert "–" in texts(heat_map(record, "task_il"))
    assert "nan" not in accuracy_over_time(record, "task_il").svg("x")


@pytest.mark.parametrize("tasks", [1, 2, 20, 24])
def test_any_number_of_tasks_can_be_drawn(tmp_path, tasks):
    record = load_run(write_run(tmp_path / "run", results(tasks=tasks)))
    chart = heat_map(record, "task_il")
    cells = [text for text in texts(chart) if text == f"{100 * record.matrix['task_il'][-1][0]:.{int(tasks <= 8)}f}"]
    assert bool(cells) == (tasks <= 20)
    if tasks > 1:
        accuracy_over_time(record, "task_il")
    assert "epochs" in training_loss(record).svg("x")


def test_the_three_kinds_of_flops_are_labelled_apart(der):
    written = " ".join(texts(flops_bars(der)))
    for word in ("executed", "what the hardware did", "sparse", "paper", "720 GFLOP", "930 GFLOP"):
        assert word in written


def test_time_and_memory_are_split_into_their_parts(der):
    time = {key.name: key.value for key in time_bar(der).legend}
    assert time == {"training": "1 min 00 s", "evaluation": "1.4 s", "data": "0.70 s", "other": "1.0 s"}
    memory = memory_bars(der)
    assert [key.name for key in memory.legend] == ["parameters", "activations", "gradients"]
    assert "373 MiB" in texts(memory)


def test_memory_without_a_measured_peak_shows_the_footprint_only(tmp_path):
    record = load_run(write_run(tmp_path / "run", results() | {"peak_memory_bytes": None}))
    written = texts(memory_bars(record))
    assert not any("peak" in text for text in written)
    assert "5.14 MiB" in written


def test_nothing_spent_can_be_drawn(tmp_path):
    nothing = {
        "flops": dict.fromkeys(("paper", "sparse", "executed"), 0),
        "seconds": dict.fromkeys(("total", "train", "evaluate", "data"), 0),
        "footprint_bytes": dict.fromkeys(("parameters", "activations", "gradients"), 0),
        "peak_memory_bytes": 0,
    }
    run = write_run(tmp_path / "run", results() | nothing)
    run_charts(load_run(run))
    rows = rows_of([load_run(run), load_run(write_run(tmp_path / "other", results("er") | nothing))])
    assert all("nan" not in chart.svg("x") for chart in row_charts(rows))


def test_a_loss_that_diverged_is_said_so(tmp_path):
    log = events(5, 4)
    for line in log[2:6]:
        line["loss"] = float("nan")
    chart = training_loss(load_run(write_run(tmp_path / "run", log=log)))
    assert "3 of 20 epochs have no finite loss" in chart.caption
    assert "nan" not in chart.svg("x")


def test_phases_of_a_task_are_told_apart(tmp_path):
    chart = training_loss(load_run(write_run(tmp_path / "run", results("packnet"))))
    assert [(key.name, key.dashed) for key in chart.legend] == [("fit", False), ("retrain", True)]
    assert chart.svg("x").count("stroke-dasharray") == 5


def test_the_comparison_shows_every_seed_and_the_mean(many):
    chart = final_accuracy(many, "task_il")
    assert chart.svg("x").count("<use ") == 6
    for group in many:
        values = 100 * np.array([run.accuracy.task_il for run in group.records])
        assert f"{values.mean():.1f} ±{values.std(ddof=1):.1f}" in texts(chart)


def test_the_comparison_leaves_out_what_a_method_cannot_answer(many):
    assert "–" in texts(final_accuracy(many, "class_il"))
    courses = average_courses(many, "class_il")
    assert [course.row.label for course in courses] == ["er", "mtl"]
    chart = average_over_tasks(many, "class_il")
    assert "packnet" not in texts(chart)
    assert "Dashed: all tasks at once." in chart.caption


def test_the_average_over_tasks_is_the_mean_of_the_runs_averages(many):
    (er,) = average_courses(many[:1], "task_il")
    for stage, found in enumerate(er.stages):
        values = [np.mean(run.matrix["task_il"][stage][: stage + 1]) for run in many[0].records]
        assert found.mean == pytest.approx(np.mean(values))
        assert found.std == pytest.approx(np.std(values, ddof=1))


def test_every_row_has_three_bars_of_flops_with_their_values(many):
    written = texts(flops_by_row(many))
    for row in many:
        assert row.label in written
        for count in (row.records[0].flops.executed, row.records[0].flops.paper):
            assert f"{count / 1e9:.1f}" in written or f"{count / 1e12:.2f}" in written
    assert [written.count(name) for name in ("executed", "sparse", "paper")] == [3, 3, 3]


def test_names_cannot_break_out_of_a_figure(tmp_path):
    runs = [write_run(tmp_path / "a", results() | {"method": NASTY}), write_run(tmp_path / "b", results("er"))]
    rows = rows_of([load_run(run) for run in runs])
    for chart in row_charts(rows):
        assert ElementTree.fromstring(chart.svg("x")).find(".//script") is None
        assert "<script" not in chart.svg("x")
    assert any(text.startswith("<script>") for text in texts(final_accuracy(rows, "task_il")))


def test_names_in_any_script_are_drawn_without_a_warning(tmp_path, recwarn):
    runs = [write_run(tmp_path / "a", results() | {"method": "猫の学習"}), write_run(tmp_path / "b", results("er"))]
    rows = rows_of([load_run(run) for run in runs])
    assert "猫の学習" in texts(final_accuracy(rows, "task_il"))
    assert not recwarn.list


def test_drawing_leaves_the_users_matplotlib_settings_alone(der, many):
    with matplotlib.rc_context({"font.size": 31, "svg.fonttype": "path", "axes.grid": True, "text.color": "red"}):
        before = dict(matplotlib.rcParams)
        strange = [chart.svg("x") for chart in run_charts(der)]
        row_charts(many)
        assert dict(matplotlib.rcParams) == before
    assert strange == [chart.svg("x") for chart in run_charts(der)]
