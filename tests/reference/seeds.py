"""Student's t by summing its density, and the binomial distribution by counting."""

from math import comb, gamma, pi, sqrt


def t_quantile(freedom: int, level: float) -> float:
    """The point within whose distance of 0 Student's t is with this probability: bisected, by Simpson's rule."""
    factor = gamma((freedom + 1) / 2) / (sqrt(freedom * pi) * gamma(freedom / 2))

    def density(t: float) -> float:
        return factor * (1 + t * t / freedom) ** (-(freedom + 1) / 2)

    def inside(end: float, parts: int = 2000) -> float:
        step = end / parts
        total = density(0) + density(end)
        for place in range(1, parts):
            total += (4 if place % 2 else 2) * density(place * step)
        return 2 * total * step / 3

    low, high = 0.0, 100.0
    for _ in range(50):
        middle = (low + high) / 2
        if inside(middle) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def interval(differences: list[float], level: float = 0.95) -> tuple[float, float]:
    """Mean and half of its interval."""
    count = len(differences)
    mean = 0.0
    for value in differences:
        mean += value / count
    squares = 0.0
    for value in differences:
        squares += (value - mean) ** 2
    return mean, t_quantile(count - 1, level) * sqrt(squares / (count - 1) / count)


def chance_of_as_many(right: int, classes: int, examples: int) -> float:
    """How probable it is that guessing is right at least so often."""
    total = 0.0
    for count in range(right, examples + 1):
        total += comb(examples, count) * (1 / classes) ** count * (1 - 1 / classes) ** (examples - count)
    return total


def chance_of_as_many_lost(lost: int, won: int) -> float:
    """How probable it is that a fair coin loses at least so many of lost + won examples."""
    total = 0.0
    for count in range(lost, lost + won + 1):
        total += comb(lost + won, count) / 2 ** (lost + won)
    return total
