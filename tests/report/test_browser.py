"""In a real browser the page fits a phone, and nothing complains."""

import pytest

from esacl.grid.study import read_study
from esacl.report import write_report
from esacl.report.page import render
from tests.report.browser import look_at, needs_browser
from tests.report.fabricate import NASTY, results, write_run, write_runs


@needs_browser
@pytest.mark.parametrize("kind", ["single", "several"])
def test_the_page_fits_a_phone_and_logs_no_error(tmp_path, kind):
    nasty = results(tasks=12) | {"method": NASTY, "stream": "a-stream-" + "with-a-very-long-name-" * 5}
    runs = [write_run(tmp_path / "nasty", nasty)]
    if kind == "several":
        runs += write_runs(tmp_path, ["er"], seeds=2, tasks=4)
    page = write_report(runs, tmp_path / "report.html").read_text("utf-8")
    assert look_at(page, tmp_path)["scroll"] <= 390


SCROLLBAR = 15  # pixels; a phone lays it over the page
CUT = """
  page.querySelectorAll("details").forEach(details => details.open = true);
  const cut = [...page.body.querySelectorAll("*")].filter(element =>
    view.getComputedStyle(element).overflowX === "auto" && element.scrollWidth > element.clientWidth + 1);
  seen.cut = cut.length;
  seen.unmarked = cut.filter(element => !view.getComputedStyle(element).backgroundImage.includes("gradient")).length;
  seen.hints = [...page.querySelectorAll(".hint")].filter(hint => hint.offsetWidth).length;
  seen.hidden = [...page.querySelectorAll(".mark")].filter(mark =>
    mark.getBoundingClientRect().left + 10 > mark.closest(".picture").getBoundingClientRect().right).length;
  seen.marks = page.querySelectorAll(".mark").length;
"""


@needs_browser
def test_on_a_phone_no_point_is_hidden_and_a_table_that_is_cut_says_so(every_method, tmp_path):
    seen = look_at(render(read_study([every_method]), tmp_path), tmp_path, CUT, 390 + SCROLLBAR)
    assert seen["marks"] > 100
    assert seen["hidden"] == 0, "dense rows stand at the right, where capacity is 100 %"
    assert seen["cut"] >= 3
    assert seen["unmarked"] == 0
    assert seen["hints"] >= 3
