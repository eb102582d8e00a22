"""What every test needs before torch computes anything."""

import os

# The tests' tensors are too small to share among threads, and idle threads that wait for each other slow everything.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some virtual machines announce AMX and then stop the process at its first tile instruction (SIGILL in bf16 layers).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Of a background job the shell has interrupts ignored, and so would have every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes says more about the machine than about the code.
settings.register_profile("esacl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("esacl")

# Counting lines takes up to as long again as what is counted; these take long and run what shorter tests cover.
HERE = Path(__file__).parent
UNCOUNTED = (
    "claims/",
    "cli/test_first_minutes",
    "conformance/",
    "deploy/test_exports",
    "estimator/test_saving",
    "faults/",
    "grid/test_dead_workers",
    "grid/test_local",
    "report/test_html",
    "selection/test_ranked_cost",
    "site/",
    "sparsity/test_isolation",
    "sparsity/test_pruned_runs",
    "sparsity/test_pruning",
    "sparsity/test_sparcl_runs",
)


def pytest_collection_modifyitems(items):
    """Tests of which the lines are not counted."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.relative_to(HERE).as_posix().startswith(UNCOUNTED):
            item.add_marker("no_cover")


@pytest.fixture(scope="session", autouse=True)
def short_reports():
    """Runs in this process write a word instead of a page, which is most of the time of a short run.

    Pages have tests of their own, and runs in other processes write them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("esacl.runner.active_run.write_report", lambda _, out: out.write_text("a page"))
        yield


@pytest.fixture
def whole_reports(monkeypatch):
    """Runs in this process write their page, as they do elsewhere."""
    from esacl.report import write_report

    monkeypatch.setattr("esacl.runner.active_run.write_report", write_report)
