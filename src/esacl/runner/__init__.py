"""One run, end to end: data → network → training → figures → files."""

from esacl.runner.entry import default_place, look, reopen, start
from esacl.runner.opened import Run
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
    "look",
    "reopen",
    "resume",
    "run",
    "start",
]
