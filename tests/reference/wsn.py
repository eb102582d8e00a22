"""Naïve twin of WSN's masks and of its straight-through estimator: one weight at a time."""


def mask(scores: list[float], level: float) -> list[bool]:
    """The top 1 − level of |scores|; among equal ones those that come first."""
    order = sorted(range(len(scores)), key=lambda at: -abs(scores[at]))
    chosen = set(order[: round((1 - level) * len(scores))])
    return [at in chosen for at in range(len(scores))]


def gradients(
    weights: list[float], scores: list[float], chosen: list[bool], given: list[float]
) -> tuple[list[float], list[float]]:
    """Gradients of weights and scores from those of the masked weights."""
    of_weights, of_scores = [], []
    for weight, score, kept, gradient in zip(weights, scores, chosen, given):
        of_weights.append(gradient if kept else 0.0)
        of_scores.append(gradient * weight * (1 if score > 0 else -1 if score < 0 else 0))
    return of_weights, of_scores
