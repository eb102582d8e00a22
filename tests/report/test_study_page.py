"""The page of a grid: complete, safe, with the numbers of its runs, also where some are missing or failed."""

import base64
import hashlib
import re
from html import unescape
from statistics import fmean, stdev
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from esacl.cli import main
from esacl.grid.study import read_study
from esacl.grid.tables import RECIPE
from esacl.methods import METHODS
from esacl.report.page import render
from esacl.report.record import SCENARIO_NAMES
from tests.report.browser import DARK, look_at, needs_browser
from tests.report.conftest import REASON
from tests.report.fabricate import write_runs
from tests.report.fabricate_grid import EVERY_METHOD, MOVED, write_grid
from tests.report.test_html import Page


@pytest.fixture(scope="module")
def page(every_method):
    """The page of all methods as text."""
    return render(read_study([every_method]), every_method)


def marks(page):
    return [unescape(label) for label in re.findall(r'class="mark"[^>]*aria-label="([^"]+)"', page)]


def test_the_page_is_complete_and_runs_no_script_but_its_own(page):
    parsed = Page(page)
    assert parsed.tags.count("script") == 1
    assert len(parsed.ids) == len(set(parsed.ids))
    inner = {link[1:] for link in parsed.links if link.startswith("#")}
    assert inner <= set(parsed.ids)
    outer = {link for link in parsed.links if not link.startswith("#")}
    assert outer == {"data:,", "finetune-stream-split-cifar100/0/report.html"}
    assert not re.search(r"https?://|//[a-z]+\.[a-z]|@import", re.sub(r"(?s)<script>.*</script>", "", page))
    script = re.search(r"(?s)<script>(.*)</script>", page)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "unsafe-eval" not in page
    assert "alert(" not in re.sub(r"&lt;.*?&gt;", "", page).replace("alert(&#34;", "")


def test_the_table_has_the_paper_beside_it_and_states_the_scale(page):
    text = Page(page).text
    assert "in the paper" in text.replace("\u00a0", " ")
    assert re.search(r"Scale: images a class all; .*epochs a task .*network .*split test", text)
    assert '<strong class="best">' in page


def test_an_unfinished_grid_says_how_far_it_is_and_why_runs_failed(page):
    text = Page(page).text
    assert f"runs finished {3 * len(METHODS) - 2} of {3 * len(METHODS)}" in text
    assert "1 of 3" in text
    assert f"{list(METHODS)[-1]}, stream split-cifar100, seed 2" in text
    assert " ".join(REASON.split()) in text


def test_points_say_the_mean_and_spread_of_their_runs(page, every_method):
    told = marks(page)
    for line in read_study([every_method]).rows:
        for setting in SCENARIO_NAMES:
            values = [record.accuracy.of(setting) for record in line.records]
            if None not in values and len(values) > 1:
                wanted = f"{line.label}: {100 * fmean(values):.1f} ±{100 * stdev(values):.1f} % at "
                assert sum(label.startswith(wanted) for label in told) == 3


def test_methods_that_need_the_task_are_in_task_il_only_and_that_is_said(page):
    assert "Only in the Task-IL plot: packnet, wsn must be told the task." in page
    figures = re.findall(r"(?s)<figure.*?</figure>", page)
    for figure in figures:
        title = re.search(r"<h3>(.*?)</h3>", figure)[1]
        assert any("wsn: " in label for label in marks(figure)) == title.startswith("Task-IL")


def test_only_plots_with_data_are_there(page, tmp_path):
    write_grid(tmp_path / "moved", MOVED)
    other = render(read_study([tmp_path / "moved"]), tmp_path)
    rare = [
        "Sweep: sparsity",
        "Sweep: ρ",
        "Sweep: share of the data that is left out",
        "Pruning without",
        "Selection without",
    ]
    for words in rare:
        assert f"<h2>{words}" in other
        assert f"<h2>{words}" not in page
    assert "must be told the task" not in other


def test_a_grid_without_a_finished_run_has_a_page_too(tmp_path):
    write_grid(tmp_path / "new", EVERY_METHOD, skip=3 * len(METHODS))
    text = Page(render(read_study([tmp_path / "new"]), tmp_path)).text
    assert f"runs finished 0 of {3 * len(METHODS)}" in text
    assert "Accuracy over" not in text


def test_the_command_writes_page_and_figures(tmp_path, capsys):
    write_grid(tmp_path / "small", EVERY_METHOD.replace("seeds = [0, 1, 2]", "seeds = [0]"), skip=len(METHODS) - 2)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "small"), "--figures", str(tmp_path / "figures")])
    assert not ended.value.code
    told = capsys.readouterr().out
    assert f"2 of {len(METHODS)} runs finished, 0 failed." in told
    assert str(tmp_path / "small" / "report.html") in told.replace("\n", "")
    written = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert {"accuracy-over-capacity-class-il.svg", "accuracy-over-flops-task-il.png"} <= set(written)
    for path in (tmp_path / "figures").glob("*.svg"):
        text = path.read_text("utf-8")
        assert "#01fe" not in text
        assert ElementTree.fromstring(text).tag.endswith("svg")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (tmp_path / "figures").glob("*.png"))
    assert f"runs finished 2 of {len(METHODS)}" in Page((tmp_path / "small" / "report.html").read_text("utf-8")).text


def test_several_grids_tell_the_failures_of_each(tmp_path, every_method):
    small = EVERY_METHOD.replace("seeds = [0, 1, 2]", "seeds = [0]")
    write_grid(tmp_path / "small", small, skip=len(METHODS) - 1)[-1].fail("no memory")
    study = read_study([every_method, tmp_path / "small"])
    assert [(name.split(":")[0], reason[:10]) for name, reason in study.failures] == [
        (every_method.name, "the disk i"),
        ("small", "no memory"),
    ]
    assert {name.rsplit(", ", 1)[1] for name, _ in study.failures} == {"seed 0", "seed 2"}
    assert (study.finished, study.wanted) == (3 * len(METHODS) - 1, 4 * len(METHODS))


def test_runs_whose_plan_is_lost_are_shown_and_that_is_said(tmp_path):
    write_grid(tmp_path / "grid", EVERY_METHOD, skip=3 * len(METHODS) - 4)
    (tmp_path / "grid" / RECIPE).unlink()
    study = read_study([tmp_path / "grid"])
    assert (study.finished, study.wanted) == (4, 4)
    assert [len(line.records) for line in study.rows] == [3, 1]
    assert "hold no grid.json" in study.about


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (RECIPE, "{", "is damaged"),
        (RECIPE, '{"title": 1}', "is damaged"),
        ("holiday.jpg", "", "there is no finished run in"),
    ],
)
def test_a_damaged_or_foreign_folder_is_one_line(tmp_path, capsys, name, text, told):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / name).write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "here")])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "here" / "report.html").exists()


@pytest.mark.parametrize(("seeds", "plot"), [(1, "matrix-task-il"), (2, "final-class-il")])
def test_figures_are_written_for_a_run_and_for_several(tmp_path, capsys, monkeypatch, seeds, plot):
    monkeypatch.setattr(Figure, "savefig", lambda _, buffer, **__: buffer.write(b"<svg/>"))
    monkeypatch.setattr("esacl.report.page.render", lambda *_: "")
    runs = [str(run) for run in write_runs(tmp_path, ["er"], seeds, tasks=2)]
    with pytest.raises(SystemExit) as ended:
        main(["report", *runs, "--figures", str(tmp_path / "figures"), "-o", str(tmp_path / "page.html")])
    assert not ended.value.code
    written = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {f"{plot}.svg", f"{plot}.png"} <= written
    assert f"{len(written)} files" in capsys.readouterr().out


PROBE = """
  const tip = page.getElementById("tip"), first = page.querySelectorAll(".mark")[1];
  first.scrollIntoView({block: "center"});
  const box = first.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
  seen.before = tip.hidden;
  first.closest("svg").dispatchEvent(new view.PointerEvent("pointermove", {clientX: x, clientY: y, bubbles: true}));
  seen.label = first.getAttribute("aria-label");
  seen.told = tip.innerText;
  seen.twins = page.querySelectorAll(".mark.on").length;
  const frame_ = tip.getBoundingClientRect();
  seen.inside = frame_.left >= 0 && frame_.right <= root.clientWidth;
  page.dispatchEvent(new view.KeyboardEvent("keydown", {key: "Escape"}));
  seen.after = tip.hidden;
  first.closest("svg").dispatchEvent(new view.PointerEvent("pointerdown", {clientX: x, clientY: y, bubbles: true}));
  seen.tapped = tip.hidden ? "" : tip.innerText;
  page.body.dispatchEvent(new view.PointerEvent("pointerdown", {bubbles: true}));
  seen.dismissed = tip.hidden;
  const start = page.querySelector('.mark[tabindex="0"]');
  start.focus();
  start.dispatchEvent(new view.KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
  seen.focused = page.activeElement.getAttribute("aria-label");
  seen.stops = page.querySelectorAll('.mark[tabindex="0"]').length;
  seen.figures = page.querySelectorAll(".picture svg").length;
  seen.paper = view.getComputedStyle(page.body).backgroundColor;
  seen.ink = view.getComputedStyle(page.querySelector(".picture svg text")).fill;
"""


@needs_browser
def test_points_answer_to_pointer_and_keys_by_day_and_night(page, tmp_path):
    day = look_at(page, tmp_path, PROBE, 360)
    assert day["before"]
    assert day["after"]
    assert day["label"] in day["told"]
    assert day["tapped"] == day["told"], "a tap tells what a pointer is told"
    assert day["dismissed"]
    for words in ("mtl", "seed 0", "seed 2", "Task-IL (%)", "Capacity (%)", "Training (", "FLOPs executed"):
        assert words in day["told"]
    assert day["twins"] >= 6
    assert day["inside"]
    assert day["focused"] == marks(page)[1]
    assert day["stops"] == day["figures"] >= 8
    night = look_at(page, tmp_path, PROBE, 360, DARK)
    assert night["paper"] == "rgb(18, 20, 23)" != day["paper"]
    assert night["ink"] != day["ink"]


@needs_browser
def test_a_page_with_sweeps_and_ablations_fits_a_phone_and_answers(tmp_path):
    write_grid(tmp_path / "moved", MOVED)
    seen = look_at(render(read_study([tmp_path / "moved"]), tmp_path), tmp_path, PROBE, 360)
    assert seen["label"] in seen["told"]
    assert seen["inside"]
    assert seen["figures"] >= 12
