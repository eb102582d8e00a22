"""Naïve twin of stochastic Frank-Wolfe over K-sparse polytopes: lists of numbers, one coordinate at a time."""

from math import sqrt

from tests.reference.polytope import Vector, lmo, pull_inside


class NaiveFrankWolfe:
    """Layers are lists of numbers; every step gives a gradient to each of them."""

    def __init__(
        self,
        layers: list[Vector],
        frozen: list[list[bool]],
        *,
        k: float,
        radius: float,
        radius_scale: str,
        scope: str,
        momentum: float,
        momentum_mode: str,
        rescale: str,
        pull: bool,
    ) -> None:
        self.layers = [list(layer) for layer in layers]
        self.frozen = frozen
        self.k = k
        self.momentum = momentum
        self.mode = momentum_mode
        self.rescale = rescale
        self.velocity = [[0.0] * len(layer) for layer in layers]
        every = [(layer, place) for layer in range(len(layers)) for place in range(len(layers[layer]))]
        if scope == "layer":
            self.blocks = [[at for at in every if at[0] == layer] for layer in range(len(layers))]
        else:
            self.blocks = [every]
        self.blocks = [block for block in self.blocks if self._count_free(block)]
        self.counts: list[int] = []
        self.radii: list[float] = []
        for block in self.blocks:
            free = [self.layers[layer][place] for layer, place in block if not self.frozen[layer][place]]
            count = max(1, round(k * len(free)))
            norm = sqrt(sum(entry**2 for entry in free))
            absolute = radius_scale == "absolute" or norm == 0
            self.counts.append(count)
            self.radii.append(radius if absolute else radius * norm / sqrt(count))
            if pull:
                inside = iter(pull_inside(free, count, self.radii[-1]))
                for layer, place in block:
                    if not self.frozen[layer][place]:
                        self.layers[layer][place] = next(inside)

    def step(self, gradients: list[Vector], lr: float) -> None:
        """One step of every block."""
        for layer, gradient in enumerate(gradients):
            for place, entry in enumerate(gradient):
                old = self.velocity[layer][place]
                averaged = self.momentum * old + (1 - self.momentum) * entry
                self.velocity[layer][place] = averaged if self.mode == "average" else old + entry
        for block, count, radius in zip(self.blocks, self.counts, self.radii):
            direction = [self.velocity[layer][place] for layer, place in block]
            frozen = [self.frozen[layer][place] for layer, place in block]
            vertex = lmo(direction, count, radius, frozen)
            moving = [number for number in range(len(block)) if not frozen[number]]
            here = [self.layers[layer][place] for layer, place in block]
            eta = lr
            if self.rescale == "diameter":
                eta = lr / (2 * radius * sqrt(count))
            elif self.rescale == "gradient":
                length = sqrt(sum(direction[number] ** 2 for number in moving))
                way = sqrt(sum((vertex[number] - here[number]) ** 2 for number in moving))
                eta = lr * length / way if way else 1.0  # already there
            eta = min(eta, 1.0)
            for number in moving:
                layer, place = block[number]
                self.layers[layer][place] = (1 - eta) * here[number] + eta * vertex[number]

    def _count_free(self, block: list[tuple[int, int]]) -> int:
        return sum(not self.frozen[layer][place] for layer, place in block)
