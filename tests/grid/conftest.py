"""Small recipes, and a cluster in this process: one worker of one thread."""

import logging

import pytest

from tests.forks import forks
from tests.grid.workers import serve_briefly

RECIPE = """
title = "Small digits"
about = "As few as possible."
seeds = [0, 1]
[base]
stream = "split-digits"
epochs = 1
limit_per_class = 8
buffer = 10
set = { "update.momentum" = 0.5 }
[[rows]]
name = "finetune"
method = "finetune"
buffer = ""
axes = {}
[[rows]]
name = "er"
method = "er"
[axes]
batch_size = [8, 16]
"""


@pytest.fixture
def recipe(tmp_path):
    """Writes a recipe; returns its path."""

    def write(text=RECIPE):
        path = tmp_path / "small.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def cluster():
    """Its address."""
    from distributed import LocalCluster

    options = {"processes": False, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=1, threads_per_worker=1, **options) as running:
        yield running.scheduler_address


@pytest.fixture(autouse=True)
def forked(monkeypatch):
    """Local grids start their processes in milliseconds."""
    monkeypatch.setattr("esacl.grid.local.PROCESSES", forks)
    monkeypatch.setattr("esacl.grid.local.serve", serve_briefly)


@pytest.fixture
def brief(monkeypatch):
    """Grids write no page: it is most of the time of so short a grid."""
    monkeypatch.setattr("esacl.report.page.write_page", lambda _, out: out)
