"""The task first, the class second: behind the head of some saved models."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from esacl.columns import MASKED

CHOICE = "choice."
"""What the names of its tensors begin with in a saved model."""

NOWHERE = -1e30  # a score of a class in a task that is not its own; finite, as differences of two are taken


def two_step(logits: Tensor, scores: Tensor, member: Tensor) -> Tensor:
    """log p(task) + log p(class | task): tasks by the scores of their classes, classes among their task by the logits.

    `member` [classes, tasks] says whose class each is; classes of no task are out of the question.
    """
    inside = member.T[None]
    task = torch.where(inside, scores[:, None], NOWHERE).logsumexp(2).log_softmax(1)
    within = torch.where(inside, logits[:, None], NOWHERE).logsumexp(2)
    return torch.where(member.any(1), logits + (task - within) @ member.T.to(logits), MASKED)


class TaskChoice(nn.Module):
    """A second head whose scores choose the task."""

    weight: Tensor
    bias: Tensor
    member: Tensor

    def __init__(self, classes: int, tasks: int, features: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(classes, features))
        self.register_buffer("bias", torch.empty(classes))
        self.register_buffer("member", torch.empty(classes, tasks, dtype=torch.bool))

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        """Logits of the head → log-probabilities."""
        return two_step(logits, linear(features, self.weight, self.bias), self.member)
