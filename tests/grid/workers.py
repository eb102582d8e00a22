"""Processes of a local grid for tests: forked from a server that has imported all, with a word instead of a page."""

import os
from typing import Any

from esacl.grid import local
from esacl.runner import active_run

serve = local.serve


def serve_briefly(jobs: Any, events: Any) -> None:
    """As it is, but for the page of a run, which is most of the time of so short a run."""
    active_run.write_report = lambda _, out: out.write_text("a page")  # type: ignore[assignment]
    serve(jobs, events)


def die(jobs: Any, events: Any) -> None:
    """A process that ends as soon as it has something to do."""
    os._exit(jobs.recv().seed + 7)


def serve_broken(jobs: Any, events: Any) -> None:
    """A process in which what no user can cause goes wrong."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("by accident")

    active_run.Run.finish = broken  # type: ignore[method-assign, assignment]
    serve(jobs, events)
