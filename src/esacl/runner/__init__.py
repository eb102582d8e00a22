"""One run, end to end: data → network → training → figures → files."""

from esacl.runner.entry import default_place, look, reopen, start
from esacl.runner.opened import Run
from esacl.runner.training import Finished, Listener, resume, run, stream

__all__ = ["Finished", "Listener", "Run", "default_place", "look", "reopen", "resume", "run", "start", "stream"]
