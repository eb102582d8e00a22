"""A page in headless Chromium, as wide as a phone, and what a probe saw of it."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH")
DARK = "--blink-settings=preferredColorScheme=0"
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
WRAPPER = """<!doctype html><body><iframe width="{width}" height="800" srcdoc="{page}"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
  const seen = {{}};
  try {{ {probe} }} catch (error) {{ seen.error = String(error); }}
  page.querySelectorAll("details").forEach(details => details.open = true);
  const wide = [...page.body.querySelectorAll("*")].filter(element =>
    !element.closest("svg, .scroll, .picture, .row > div, #tip") &&
    element.getBoundingClientRect().right > root.clientWidth + 1);
  Object.assign(seen, {{ width: root.clientWidth, scroll: root.scrollWidth, wide: wide.length }});
  document.title = JSON.stringify(seen);
}};
</script></body>"""


def look_at(page: str, folder: Path, probe: str = "", width: int = 390, *flags: str) -> dict[str, Any]:
    """What the probe, JavaScript that fills `seen`, found in a page; with all its details open it must fit."""
    wrapper = folder / "wrapper.html"
    wrapper.write_text(WRAPPER.format(page=escape(page), probe=probe, width=width), "utf-8")
    command = [BROWSER or "", *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", wrapper.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert title, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(unescape(title[1]))
    assert "error" not in seen, seen["error"]
    assert width - 20 <= seen["width"] <= width
    assert seen["scroll"] == seen["width"]
    assert seen["wide"] == 0
    return seen
