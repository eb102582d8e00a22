"""Training cost as three different figures that are never presented as one another."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of training; evaluation is not part of it.

    paper: the paper's formula: 2 × MACs × 3 × examples of the stream in the update set, with each layer's density.
    sparse: metered at every call (replay, ranking and teachers included), with credit for zero weights.
    executed: metered at every call, dense: what the hardware really did.
    """

    paper: float
    sparse: float
    executed: float


def flops(paper_macs: float, sparse_macs: float, executed_macs: float) -> Flops:
    """Two operations for each multiply-add.

    >>> flops(1, 2, 3)
    Flops(paper=2, sparse=4, executed=6)
    """
    return Flops(2 * paper_macs, 2 * sparse_macs, 2 * executed_macs)
