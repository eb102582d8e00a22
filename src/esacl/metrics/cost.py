"""Training cost as different figures that are never presented as one another."""

from dataclasses import dataclass

from esacl.documents import Amount


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of training; evaluation is not part of it.

    paper: the paper's formula: 2 × MACs × 3 × examples of the stream in the update set, with each layer's density.
    sparse: metered at every call (replay, ranking and teachers included), with credit for zero weights.
    executed: metered at every call, dense: what the hardware really did.
    credited: the paper's own accounting, as if the pruned network had been trained from the start (`credit`).
    """

    paper: Amount
    sparse: Amount
    executed: Amount
    credited: Amount | None = None  # None where the run did not record it


def flops(paper_macs: float, sparse_macs: float, executed_macs: float, credited_macs: float | None = None) -> Flops:
    """Two operations for each multiply-add.

    >>> flops(1, 2, 3, 4)
    Flops(paper=2, sparse=4, executed=6, credited=8)
    """
    credited = None if credited_macs is None else 2 * credited_macs
    return Flops(2 * paper_macs, 2 * sparse_macs, 2 * executed_macs, credited)


def credit(density: float, kept: float, passes: float) -> float:
    """Training relative to that of the dense base, as the paper counts it: density × share of data × passes of a step.

    At sparsity 0.8 with 40 % of the data and the two passes of SAM; the paper reports .33 of 2.01 PFLOP:

    >>> round(credit(0.2, 0.4, 2), 2), round(0.33 / 2.01, 2)
    (0.16, 0.16)
    """
    return density * kept * passes
