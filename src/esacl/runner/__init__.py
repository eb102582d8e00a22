"""One run, end to end: data → network → training → figures → files."""

from esacl.runner.entry import Listener, reopen, resume, run, start
from esacl.runner.opened import Run

__all__ = ["Listener", "Run", "reopen", "resume", "run", "start"]
