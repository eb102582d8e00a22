"""Continual learning: train one network on a sequence of tasks; measure what it forgets and what it costs."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from esacl.version import __version__

if TYPE_CHECKING:
    from esacl.artifacts import Results
    from esacl.config import Config
    from esacl.deploy import evaluate, load_sparse
    from esacl.errors import EsaclError
    from esacl.estimator import ContinualClassifier
    from esacl.methods import Method, combine
    from esacl.metrics.evaluation import Evaluation
    from esacl.nets import Backbone, NetTraits
    from esacl.objectives.base import Objective
    from esacl.optim.constraint import StepConstraint
    from esacl.optim.frank_wolfe import FrankWolfe
    from esacl.optim.gradient import GradientRule
    from esacl.optim.polytope import KSparsePolytope
    from esacl.optim.update import UpdateRule
    from esacl.options import option
    from esacl.part import Part
    from esacl.readouts.base import Readout
    from esacl.runner import compare_readouts, iter_run, resume, run
    from esacl.selection.base import DataSelector
    from esacl.sparsity.base import SparsityStrategy
    from esacl.streams import Examples, Stream, Task, as_stream, from_arrays, open_stream
    from esacl.streams.base import Source

__all__ = [
    "Backbone",
    "Config",
    "ContinualClassifier",
    "DataSelector",
    "EsaclError",
    "Evaluation",
    "Examples",
    "FrankWolfe",
    "GradientRule",
    "KSparsePolytope",
    "Method",
    "NetTraits",
    "Objective",
    "Part",
    "Readout",
    "Results",
    "Source",
    "SparsityStrategy",
    "StepConstraint",
    "Stream",
    "Task",
    "UpdateRule",
    "__version__",
    "as_stream",
    "combine",
    "compare_readouts",
    "evaluate",
    "from_arrays",
    "iter_run",
    "load_sparse",
    "open_stream",
    "option",
    "resume",
    "run",
]

_HOMES = {
    "Backbone": "nets",
    "Config": "config",
    "ContinualClassifier": "estimator",
    "DataSelector": "selection.base",
    "EsaclError": "errors",
    "Evaluation": "metrics.evaluation",
    "Examples": "streams",
    "FrankWolfe": "optim.frank_wolfe",
    "GradientRule": "optim.gradient",
    "KSparsePolytope": "optim.polytope",
    "Method": "methods",
    "NetTraits": "nets",
    "Objective": "objectives.base",
    "Part": "part",
    "Readout": "readouts.base",
    "Results": "artifacts",
    "Source": "streams.base",
    "SparsityStrategy": "sparsity.base",
    "StepConstraint": "optim.constraint",
    "Stream": "streams",
    "Task": "streams",
    "UpdateRule": "optim.update",
    "as_stream": "streams",
    "combine": "methods",
    "compare_readouts": "runner",
    "evaluate": "deploy",
    "from_arrays": "streams",
    "iter_run": "runner",
    "load_sparse": "deploy",
    "open_stream": "streams",
    "option": "options",
    "resume": "runner",
    "run": "runner",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and the command line must answer Ctrl-C and mistakes before that."""
    if name == "stream":
        warnings.warn("esacl.stream is called esacl.iter_run now; the old name goes.", DeprecationWarning, stacklevel=2)
        name = "iter_run"
    if name not in _HOMES:
        raise AttributeError(f"module 'esacl' has no attribute {name!r}")
    return getattr(import_module(f"esacl.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
