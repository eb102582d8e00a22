"""In a real browser the page fits a phone, and nothing complains."""

import pytest

from esacl.report import write_report
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
