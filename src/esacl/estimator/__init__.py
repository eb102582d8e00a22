"""A scikit-learn style classifier that keeps learning."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esacl.estimator.classifier import ContinualClassifier

__all__ = ["ContinualClassifier"]


def __getattr__(name: str) -> Any:
    """Import on first use: scikit-learn takes a second, and the files of a classifier are read without it."""
    if name not in __all__:
        raise AttributeError(f"module 'esacl.estimator' has no attribute {name!r}")
    from esacl.estimator.classifier import ContinualClassifier

    return ContinualClassifier
