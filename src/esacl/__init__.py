"""Efficient continual learning: one small network that learns task after task, cheaply, without forgetting."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from esacl.version import __version__

if TYPE_CHECKING:
    from esacl.artifacts import Results
    from esacl.config import Config
    from esacl.deploy import load_sparse
    from esacl.errors import EsaclError
    from esacl.estimator import ContinualClassifier
    from esacl.optim.frank_wolfe import FrankWolfe
    from esacl.optim.polytope import KSparsePolytope
    from esacl.runner import resume, run, stream
    from esacl.streams import Stream, from_arrays, open_stream

__all__ = [
    "Config",
    "ContinualClassifier",
    "EsaclError",
    "FrankWolfe",
    "KSparsePolytope",
    "Results",
    "Stream",
    "__version__",
    "from_arrays",
    "load_sparse",
    "open_stream",
    "resume",
    "run",
    "stream",
]

_HOMES = {
    "Config": "config",
    "ContinualClassifier": "estimator",
    "EsaclError": "errors",
    "FrankWolfe": "optim.frank_wolfe",
    "KSparsePolytope": "optim.polytope",
    "Results": "artifacts",
    "Stream": "streams",
    "from_arrays": "streams",
    "load_sparse": "deploy",
    "open_stream": "streams",
    "resume": "runner",
    "run": "runner",
    "stream": "runner",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and the command line must answer Ctrl-C and mistakes before that."""
    if name not in _HOMES:
        raise AttributeError(f"module 'esacl' has no attribute {name!r}")
    return getattr(import_module(f"esacl.{_HOMES[name]}"), name)
