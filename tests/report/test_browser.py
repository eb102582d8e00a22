"""In a real browser the page fits a phone, and nothing complains."""

import re
import shutil
import subprocess
from html import escape

import pytest

from esacl.report import write_report
from tests.report.fabricate import NASTY, results, write_run, write_runs

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--virtual-time-budget=3000",
    "--dump-dom",
]
# The page runs in a frame as wide as a phone; the probe stands outside, where the page's own policy does not reach.
WRAPPER = """<!doctype html><body><iframe width="390" height="800" srcdoc="{page}"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument;
  page.querySelectorAll("details").forEach(details => details.open = true);
  const root = page.documentElement, wide = [...page.body.querySelectorAll("*")].filter(element =>
    !element.closest("svg, .scroll, .picture") && element.getBoundingClientRect().right > root.clientWidth + 1);
  document.title = `seen ${{root.clientWidth}} ${{root.scrollWidth}} ${{wide.length}}`;
}};
</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH")
@pytest.mark.parametrize("kind", ["single", "several"])
def test_the_page_fits_a_phone_and_logs_no_error(tmp_path, kind):
    nasty = results(tasks=12) | {"method": NASTY, "stream": "a-stream-" + "with-a-very-long-name-" * 5}
    runs = [write_run(tmp_path / "nasty", nasty)]
    if kind == "several":
        runs += write_runs(tmp_path, ["er"], seeds=2, tasks=4)
    page = write_report(runs, tmp_path / "report.html").read_text("utf-8")
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(WRAPPER.format(page=escape(page)), "utf-8")
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", wrapper.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    seen = re.search(r"<title>seen (\d+) (\d+) (\d+)</title>", done.stdout)
    assert seen, done.stderr[-2000:]
    width, scroll_width, too_wide = map(int, seen.groups())
    assert 370 <= width <= 390
    assert scroll_width == width
    assert too_wide == 0
    assert "CONSOLE" not in done.stderr
