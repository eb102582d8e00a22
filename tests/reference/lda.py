"""Linear discriminant analysis one example at a time: means, scatter within classes, and the shrunk inverse."""

import numpy as np


def discriminants(features: list[list[float]], labels: list[int], share: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of equally likely classes, with `share` of the identity in the covariance."""
    rows = np.array(features)
    means = [np.mean([row for row, y in zip(rows, labels) if y == label], axis=0) for label in sorted(set(labels))]
    scatter = np.zeros((rows.shape[1], rows.shape[1]))
    for row, label in zip(rows, labels):
        away = row - means[sorted(set(labels)).index(label)]
        scatter += np.outer(away, away) / len(rows)
    size = np.trace(scatter) / len(scatter)
    inverse = np.linalg.inv((1 - share) * scatter + share * size * np.eye(len(scatter)))
    weight = np.stack([inverse @ mean for mean in means])
    return weight, np.array([-mean @ inverse @ mean / 2 for mean in means])
