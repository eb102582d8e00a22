"""iCaRL with plain loops: herding by trying every row, one sigmoid at a time, the nearest of the class means."""

from math import exp, log, sqrt

Rows = list[list[float]]


def mean(rows: Rows) -> list[float]:
    """Of each coordinate."""
    return [sum(values) / len(rows) for values in zip(*rows)]


def distance(one: list[float], other: list[float]) -> float:
    """Euclidean."""
    return sqrt(sum((a - b) ** 2 for a, b in zip(one, other)))


def unit(row: list[float]) -> list[float]:
    """The same direction, of length 1."""
    length = distance(row, [0.0] * len(row))
    return [value / length for value in row]


def candidates(features: Rows, taken: list[int]) -> dict[int, float]:
    """How far the mean of the taken rows and one more would be from the mean of all, for each row left."""
    wanted = mean(features)
    return {
        row: distance(wanted, mean([features[other] for other in [*taken, row]]))
        for row in range(len(features))
        if row not in taken
    }


def herd(features: Rows, count: int) -> list[int]:
    """The best candidate, again and again."""
    taken: list[int] = []
    for _ in range(count):
        left = candidates(features, taken)
        taken.append(min(left, key=lambda row: left[row]))
    return taken


def nearest(feature: list[float], classes: dict[int, Rows]) -> int:
    """The class whose mean of unit features, made a unit vector again, is nearest to the unit feature."""
    means = {column: unit(mean([unit(row) for row in rows])) for column, rows in classes.items()}
    return min(means, key=lambda column: distance(unit(feature), means[column]))


def entropy(logit: float, wanted: float) -> float:
    """Binary cross-entropy of a sigmoid."""
    chance = 1 / (1 + exp(-logit))
    return -wanted * log(chance) - (1 - wanted) * log(1 - chance)


def fit(logits: list[float], label: int, new: list[int]) -> float:
    """One example: 1 is wanted in the column of its label, 0 in the other new ones."""
    return sum(entropy(logits[column], 1.0 if column == label else 0.0) for column in new)


def retained(logits: list[float], before: list[float], old: list[int]) -> float:
    """One example: in old columns the sigmoids of before are wanted."""
    return sum(entropy(logits[column], 1 / (1 + exp(-before[column]))) for column in old)
