"""Naïve twin of Frank-Wolfe over whole channels: a list of numbers for each channel."""

from math import sqrt

Matrix = list[list[float]]


def length(row: list[float]) -> float:
    """Euclidean."""
    return sqrt(sum(entry**2 for entry in row))


def vertex(direction: Matrix, count: int, radius: float) -> Matrix:
    """Against the longest rows; zeros elsewhere."""
    longest = sorted(range(len(direction)), key=lambda number: -length(direction[number]))[:count]
    return [
        [-radius * entry / length(row) for entry in row] if number in longest and length(row) else [0.0] * len(row)
        for number, row in enumerate(direction)
    ]


class NaiveChannelFrankWolfe:
    """One group of channels."""

    def __init__(
        self, rows: Matrix, *, k: float, radius: float, radius_scale: str, momentum: float, momentum_mode: str
    ) -> None:
        self.rows = rows
        self.count = max(1, round(k * len(rows)))
        norm = sqrt(sum(length(row) ** 2 for row in rows))
        self.radius = radius if radius_scale == "absolute" else radius * norm / sqrt(self.count)
        self.momentum = momentum
        self.mode = momentum_mode
        self.velocity = [[0.0] * len(row) for row in rows]

    def step(self, gradients: Matrix, lr: float) -> None:
        """Average or add up, find the vertex, go a part of the way."""
        for number, row in enumerate(gradients):
            for place, entry in enumerate(row):
                old = self.velocity[number][place]
                averaged = self.momentum * old + (1 - self.momentum) * entry
                self.velocity[number][place] = averaged if self.mode == "average" else old + entry
        goal = vertex(self.velocity, self.count, self.radius)
        self.rows = [
            [(1 - lr) * here + lr * there for here, there in zip(row, end)] for row, end in zip(self.rows, goal)
        ]
