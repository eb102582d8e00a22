"""Using a trained model: what it is, what it answers, how it learns more, and how it leaves this library."""

from esacl.deploy.model import Trained
from esacl.deploy.opening import open_model
from esacl.deploy.weights import load_sparse

__all__ = ["Trained", "load_sparse", "open_model"]
