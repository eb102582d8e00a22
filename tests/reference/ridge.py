"""Ridge regression with an intercept, and its leave-one-out error by leaving one out."""

import numpy as np


def ridge(features: np.ndarray, targets: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights [outputs, features] and biases by the normal equations."""
    centred = features - features.mean(0)
    inside = centred.T @ centred + strength * np.eye(features.shape[1])
    weight = np.linalg.solve(inside, centred.T @ (targets - targets.mean(0))).T
    return weight, targets.mean(0) - weight @ features.mean(0)


def left_out(features: np.ndarray, targets: np.ndarray, strength: float) -> float:
    """Mean squared error of examples that were left out, one after the other."""
    errors = []
    for place in range(len(features)):
        rest = np.arange(len(features)) != place
        weight, bias = ridge(features[rest], targets[rest], strength)
        errors.append((weight @ features[place] + bias - targets[place]) ** 2)
    return float(np.mean(errors))


def generalised(x: np.ndarray, y: np.ndarray, strength: float) -> float:
    """Error of generalised cross-validation, with the whole hat matrix, the constant unpenalised."""
    n = len(x)
    centred = x - x.mean(0)
    hat = np.ones((n, n)) / n + centred @ np.linalg.inv(centred.T @ centred + strength * np.eye(x.shape[1])) @ centred.T
    left = y - hat @ y
    return float((left**2).sum() / (1 - np.trace(hat) / n) ** 2)
