"""iCaRL (Rebuffi et al. 2017): sigmoids taught by labels and by a teacher, exemplars by herding, nearest class mean."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import normalize, one_hot

from esacl.nets.features import features_of
from esacl.nets.network import Network
from esacl.objectives.exemplars import ExemplarObjective
from esacl.problem import Problem
from esacl.streams.rows import Rows
from esacl.types import Batch, Columns, Outputs, Replay


class Icarl(ExemplarObjective):
    """Σ over new columns of BCE(label) + Σ over old columns of BCE(the teacher's sigmoid), on task and exemplars.

    With the training columns `all`, those of classes to come are new too: they learn that nothing is theirs.
    """

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """Every class so far: new ones learn from labels, old ones from the teacher."""
        return "seen"

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """Columns that are taught apart from one another cannot be left out of a comparison."""
        if options["train"]["columns"] != "task":
            return None
        return Problem(
            "each column is a sigmoid of its own, and those of earlier classes learn from the teacher in every step, "
            "but {given} leaves them out.",
            "train.columns",
            "task",
            remedy="Use {train.columns:seen} or {train.columns:all}, or another method.",
        )

    def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """New columns against the labels; an exemplar belongs to none of them."""
        every, old = range(outputs.logits.shape[1]), {*self.old}
        new = self.columns if self.context.columns != "all" else [column for column in every if column not in old]
        wanted = one_hot(batch.y, outputs.logits.shape[1])[:, new]
        return bce(outputs.logits[:, new], wanted.to(outputs.logits), reduction="none").sum(1)

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """Old columns against what the teacher says, from the second task on."""
        if not self.teacher:
            return None
        told = self.teacher(batch.inputs).logits[:, self.old].sigmoid()
        return bce(outputs.logits[:, self.old], told, reduction="none").sum(1).mean()

    def choose(self, net: Network, images: Rows, column: int, count: int) -> Tensor:
        """By herding on normalised features."""
        features = normalize(features_of(net, self.context, images))
        net.meter.charge(count * features.numel())
        return herd(features, count).cpu()


def herd(features: Tensor, count: int) -> Tensor:
    """Rows whose running mean stays nearest to the mean of all, one after the other, none twice.

    >>> herd(torch.tensor([[0.0], [1.0], [5.0]]), 2)
    tensor([1, 2])
    """
    target = features.mean(0)
    taken = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    total = torch.zeros_like(target)
    rows = []
    for number in range(1, count + 1):
        distance = (target - (total + features) / number).square().sum(1)
        row = distance.masked_fill(taken, torch.inf).argmin()
        taken[row] = True
        total = total + features[row]
        rows.append(row)
    return torch.stack(rows)
