"""Naïve twin of the K-sparse polytope: its vertices one by one, sorting, and bisection."""

from itertools import combinations, product
from math import dist

Vector = list[float]


def vertices(n: int, k: int, radius: float) -> list[Vector]:
    """Every vector with k entries ±radius and zeros elsewhere."""
    found = []
    for places in combinations(range(n), k):
        for signs in product((-1, 1), repeat=k):
            vertex = [0.0] * n
            for place, sign in zip(places, signs):
                vertex[place] = sign * radius
            found.append(vertex)
    return found


def dot(one: Vector, other: Vector) -> float:
    """<one, other>."""
    return sum(a * b for a, b in zip(one, other))


def lmo(direction: Vector, k: int, radius: float, frozen: list[bool] | None = None) -> Vector:
    """The vertex against the k largest entries, the first of equal ones; nothing at frozen places."""
    free = [place for place in range(len(direction)) if frozen is None or not frozen[place]]
    vertex = [0.0] * len(direction)
    for place in sorted(free, key=lambda place: (-abs(direction[place]), place))[:k]:
        if direction[place] > 0:
            vertex[place] = -radius
        elif direction[place] < 0:
            vertex[place] = radius
    return vertex


def contains(x: Vector, k: int, radius: float) -> bool:
    """Whether no entry and not all entries together are too large."""
    return all(abs(entry) <= radius for entry in x) and sum(abs(entry) for entry in x) <= k * radius


def gauge(x: Vector, k: int, radius: float) -> float:
    """The smallest blow-up that holds x, by bisection."""
    if not any(x):
        return 0.0
    low, high = 0.0, 1.0
    while not contains(x, k, high * radius):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if contains(x, k, middle * radius):
            high = middle
        else:
            low = middle
    return high


def pull_inside(x: Vector, k: int, radius: float) -> Vector:
    """x, or what is left of it at the boundary."""
    if contains(x, k, radius):
        return list(x)
    factor = gauge(x, k, radius)
    return [entry / factor for entry in x]


def diameter(n: int, k: int, radius: float) -> float:
    """Largest distance of two vertices."""
    corners = vertices(n, k, radius)
    return max(dist(one, other) for one in corners for other in corners)
