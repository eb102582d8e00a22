"""Efficient continual learning: one small network that learns task after task, cheaply, without forgetting."""

from esacl.artifacts import Results
from esacl.config import Config
from esacl.errors import EsaclError
from esacl.runner import resume, run
from esacl.streams import Stream, from_arrays, open_stream
from esacl.version import __version__

__all__ = ["Config", "EsaclError", "Results", "Stream", "__version__", "from_arrays", "open_stream", "resume", "run"]
