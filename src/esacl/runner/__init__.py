"""One run, end to end: data → network → training → figures → files."""

from esacl.runner.active_run import Run
from esacl.runner.entry import default_place, open_finished, reopen, start
from esacl.runner.readouts import ReadoutResult, compare_readouts
from esacl.runner.training import Finished, Listener, iter_run, resume, run

__all__ = [
    "Finished",
    "Listener",
    "ReadoutResult",
    "Run",
    "compare_readouts",
    "default_place",
    "iter_run",
    "open_finished",
    "reopen",
    "resume",
    "run",
    "start",
]
