"""One run, end to end: data → network → training → figures → files."""

from esacl.runner.entry import default_place, look, reopen, start
from esacl.runner.opened import Run
from esacl.runner.training import Finished, Listener, iter_run, resume, run

__all__ = ["Finished", "Listener", "Run", "default_place", "iter_run", "look", "reopen", "resume", "run", "start"]
