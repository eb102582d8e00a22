"""Figures show the numbers of the run, follow the page's colours, and leave matplotlib as it was."""

import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from esacl.report import figures, load_run
from esacl.report.groups import contests
from tests.report.fabricate import NASTY, events, results, write_run, write_runs


@pytest.fixture
def der(tmp_path):
    return load_run(write_run(tmp_path / "der"))


@pytest.fixture
def many(tmp_path):
    runs = write_runs(tmp_path, ["er", "packnet", "mtl"], seeds=2, tasks=4)
    (contest,) = contests([load_run(run) for run in runs])
    return contest


def texts(drawing):
    return [element.text for element in ElementTree.fromstring(drawing.svg).iter("text")]


def run_figures(record):
    drawn = [figures.heat_map(record, setting, f"h-{setting}") for setting in record.matrix]
    if not record.joint:
        drawn += [figures.accuracy_over_time(record, setting, f"t-{setting}") for setting in record.matrix]
    drawn += [figures.training_loss(record, "loss"), figures.flops_bars(record, "flops")]
    return [*drawn, figures.time_bar(record, "time"), figures.memory_bars(record, "memory")]


def contest_figures(contest):
    drawn = [figures.final_accuracy(contest, setting, f"f-{setting}") for setting in ("task_il", "class_il")]
    drawn += [figures.average_over_time(contest, setting, f"a-{setting}") for setting in ("task_il", "class_il")]
    return [*drawn, figures.cost_comparison(contest, "c"), figures.accuracy_against_cost(contest, "w")]


def test_every_figure_is_an_image_with_a_label_that_holds_numbers(der, many):
    for drawing in run_figures(der) + contest_figures(many):
        root = ElementTree.fromstring(drawing.svg)
        assert root.tag == "svg"
        assert root.get("role") == "img"
        assert re.search(r"\d|one dot", root.get("aria-label"))
        assert root.get("viewBox")
        assert root.get("width") is None


def test_every_figure_takes_its_colours_from_the_page(der, many):
    for drawing in run_figures(der) + contest_figures(many):
        assert not re.findall(r"#[0-9a-f]{6}\b", drawing.svg), drawing.title
        assert "var(--fg)" in drawing.svg or "var(--muted)" in drawing.svg
        assert "font-family" not in drawing.svg
        assert "<style" not in drawing.svg
        assert "<metadata" not in drawing.svg


def test_ids_carry_the_prefix_and_every_reference_is_met(der):
    for drawing in run_figures(der):
        ids = re.findall(r'\bid="([^"]+)"', drawing.svg)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", drawing.svg)) <= {(i, "") for i in ids} | {
            ("", i) for i in ids
        }
    assert 'id="left-' in figures.accuracy_over_time(der, "task_il", "left").svg


def test_the_matrix_writes_every_accuracy(der):
    written = texts(figures.heat_map(der, "class_il", "x"))
    for row in der.matrix["class_il"]:
        for value in row:
            assert f"{100 * value:.1f}" in written


def test_the_matrix_fades_tasks_to_come_and_outlines_the_one_just_trained(der):
    svg = figures.heat_map(der, "task_il", "x").svg
    assert svg.count("fill:none;stroke:var(--fg)") == 5
    faded = [float(x) for x in re.findall(r"fill:var\(--heat\);opacity:([0-9.]+)", svg)]
    assert sum(opacity < 0.3 for opacity in faded) == 10
    assert sum(opacity > 0.7 for opacity in faded) == 15


def test_a_joint_run_has_one_row_without_outlines(tmp_path):
    record = load_run(write_run(tmp_path / "mtl", results("mtl")))
    drawing = figures.heat_map(record, "task_il", "x")
    assert "all tasks" in texts(drawing)
    assert "stroke:var(--fg)" not in drawing.svg


def test_a_cell_that_was_not_measured_is_a_dash(tmp_path):
    found = results()
    found["matrix"]["task_il"][0][4] = None
    record = load_run(write_run(tmp_path / "run", found))
    assert "–" in texts(figures.heat_map(record, "task_il", "x"))
    assert "nan" not in figures.accuracy_over_time(record, "task_il", "x").svg


@pytest.mark.parametrize("tasks", [1, 2, 20, 24])
def test_any_number_of_tasks_can_be_drawn(tmp_path, tasks):
    record = load_run(write_run(tmp_path / "run", results(tasks=tasks)))
    drawing = figures.heat_map(record, "task_il", "x")
    cells = [text for text in texts(drawing) if text == f"{100 * record.matrix['task_il'][-1][0]:.{int(tasks <= 8)}f}"]
    assert bool(cells) == (tasks <= 20)
    if tasks > 1:
        figures.accuracy_over_time(record, "task_il", "x")
    assert "epochs" in figures.training_loss(record, "x").svg


def test_the_three_kinds_of_flops_are_labelled_apart(der):
    written = " ".join(texts(figures.flops_bars(der, "x")))
    for word in ("executed", "what the hardware did", "sparse", "paper", "720 GFLOP", "930 GFLOP"):
        assert word in written


def test_time_and_memory_are_split_into_their_parts(der):
    time = {key.name: key.value for key in figures.time_bar(der, "x").legend}
    assert time == {"training": "1 min 00 s", "evaluation": "1.4 s", "data": "0.70 s", "other": "1.0 s"}
    memory = figures.memory_bars(der, "x")
    assert [key.name for key in memory.legend] == ["parameters", "activations", "gradients"]
    assert "373 MiB" in texts(memory)


def test_memory_without_a_measured_peak_shows_the_footprint_only(tmp_path):
    record = load_run(write_run(tmp_path / "run", results() | {"peak_memory_bytes": None}))
    written = texts(figures.memory_bars(record, "x"))
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
    run_figures(load_run(run))
    (contest,) = contests([load_run(run), load_run(write_run(tmp_path / "other", results("er") | nothing))])
    assert all("nan" not in drawing.svg for drawing in contest_figures(contest))


def test_a_loss_that_diverged_is_said_so(tmp_path):
    log = events(5, 4)
    for line in log[2:6]:
        line["loss"] = float("nan")
    drawing = figures.training_loss(load_run(write_run(tmp_path / "run", log=log)), "x")
    assert "3 of 20 epochs have no finite loss" in drawing.caption
    assert "nan" not in drawing.svg


def test_phases_of_a_task_are_told_apart(tmp_path):
    drawing = figures.training_loss(load_run(write_run(tmp_path / "run", results("packnet"))), "x")
    assert [(key.name, key.dashed) for key in drawing.legend] == [("fit", False), ("retrain", True)]
    assert drawing.svg.count("stroke-dasharray") == 5


def test_the_comparison_shows_every_seed_and_the_mean(many):
    drawing = figures.final_accuracy(many, "task_il", "x")
    assert drawing.svg.count("<use ") == 6
    for group in many.groups:
        values = 100 * np.array([run.accuracy.task_il for run in group.records])
        assert f"{values.mean():.1f} ±{values.std(ddof=1):.1f}" in texts(drawing)


def test_the_comparison_leaves_out_what_a_method_cannot_answer(many):
    assert "–" in texts(figures.final_accuracy(many, "class_il", "x"))
    legend = [key.name for key in figures.average_over_time(many, "class_il", "x").legend]
    assert legend == ["er", "mtl (all tasks at once)"]


def test_names_cannot_break_out_of_a_figure(tmp_path):
    runs = [write_run(tmp_path / "a", results() | {"method": NASTY}), write_run(tmp_path / "b", results("er"))]
    (contest,) = contests([load_run(run) for run in runs])
    for drawing in contest_figures(contest):
        assert ElementTree.fromstring(drawing.svg).find(".//script") is None
        assert "<script" not in drawing.svg
    assert any(text.startswith("<script>") for text in texts(figures.final_accuracy(contest, "task_il", "x")))


def test_names_in_any_script_are_drawn_without_a_warning(tmp_path, recwarn):
    runs = [write_run(tmp_path / "a", results() | {"method": "猫の学習"}), write_run(tmp_path / "b", results("er"))]
    (contest,) = contests([load_run(run) for run in runs])
    assert "猫の学習" in texts(figures.final_accuracy(contest, "task_il", "x"))
    assert not recwarn.list


def test_drawing_leaves_the_users_matplotlib_settings_alone(der, many):
    with matplotlib.rc_context({"font.size": 31, "svg.fonttype": "path", "axes.grid": True, "text.color": "red"}):
        before = dict(matplotlib.rcParams)
        strange = [drawing.svg for drawing in run_figures(der)]
        contest_figures(many)
        assert dict(matplotlib.rcParams) == before
    assert strange == [drawing.svg for drawing in run_figures(der)]
