"""Naïve twin of data selection: Python's sort, and a dictionary of the losses last seen."""

from math import inf


def hardest(losses: list[float], keep: float) -> list[int]:
    """Rows of the largest losses, in the order of the batch; among equal ones, those that come first."""
    count = max(1, round(keep * len(losses)))
    order = sorted(range(len(losses)), key=lambda row: (-losses[row], row))
    return sorted(order[:count])


class LastSeen:
    """The loss of each example when it was last seen; an example that never was counts as the hardest."""

    def __init__(self) -> None:
        self.losses: dict[int, float] = {}

    def hardest(self, examples: list[int], keep: float) -> list[int]:
        """Rows of a batch of these examples."""
        return hardest([self.losses.get(example, inf) for example in examples], keep)

    def see(self, examples: list[int], losses: list[float]) -> None:
        """These were computed."""
        self.losses |= dict(zip(examples, losses))
