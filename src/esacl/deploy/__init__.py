"""Using a trained model: what it is and answers, how good it is, how it learns more, and how it leaves this library."""

from esacl.deploy.evaluation import evaluate
from esacl.deploy.model import Trained
from esacl.deploy.opening import open_answering, open_model
from esacl.deploy.weights import load_sparse

__all__ = ["Trained", "evaluate", "load_sparse", "open_answering", "open_model"]
