"""A scikit-learn style classifier that keeps learning."""

from esacl.estimator.classifier import ContinualClassifier

__all__ = ["ContinualClassifier"]
