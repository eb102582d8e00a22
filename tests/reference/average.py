"""An exponential average of weights, number by number."""


def averaged(first: list[float], steps: list[list[float]], decay: float) -> list[float]:
    """Where the average is after these steps, if it starts at `first`."""
    found = list(first)
    for step in steps:
        found = [decay * old + (1 - decay) * new for old, new in zip(found, step)]
    return found
