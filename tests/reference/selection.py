"""Naïve twin of data selection: Python's sort, and a dictionary of the losses last seen."""

from math import inf


def hardest(losses: list[float], keep: float) -> list[int]:
    """Rows of the largest losses, in the order of the batch; among equal ones, those that come first."""
    count = max(1, round(keep * len(losses)))
    order = sorted(range(len(losses)), key=lambda row: (-losses[row], row))
    return sorted(order[:count])


def unbiased(losses: list[float], keep: float, chances: list[float]) -> dict[int, float]:
    """Rows that are kept, and how many rows each stands for: those above the mean, and a sample of the others.

    At least a fifth of what is kept is sampled, by the largest of numbers drawn beforehand.
    """
    count = max(1, round(keep * len(losses)))
    seen = [loss for loss in losses if loss < inf]
    above = sum(loss == inf or loss > sum(seen) / len(seen) for loss in losses)
    sure = min(above, count - max(1, round(0.2 * count)))
    order = sorted(range(len(losses)), key=lambda row: (-losses[row], row))
    others = sorted(order[sure:], key=lambda row: (-chances[row], row))[: count - sure]
    return dict.fromkeys(order[:sure], 1.0) | {row: (len(losses) - sure) / (count - sure) for row in others}


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
