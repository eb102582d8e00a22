"""Dark experience replay, DER++ (Buzzega et al. 2020), in plain torch.

Every step draws two batches of stored examples. All three batches go through the network in ONE forward pass, and the
loss is

    CE(current examples) + α · MSE(logits, stored logits) on one replayed batch + β · CE on the other

Stored are the images before augmentation, their labels, and the logits of the step that stored them. Replay begins with
the second task: in the first, the memory holds nothing but examples of the task itself.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from .common import Result, Settings, Step, Task, current_loss, fine_tuning, train


def derpp_loss(step: Step, alpha: float, beta: float) -> tuple[Tensor, Tensor]:
    """Three terms from one pass over the current examples and two replayed batches."""
    if step.memory is None:
        return fine_tuning(step)
    dark_x, _, dark_logits = step.memory.draw(step.settings.batch)
    old_x, old_y, _ = step.memory.draw(step.settings.batch)
    logits = step.model(torch.cat([step.x, step.augment(dark_x), step.augment(old_x)]))
    current, dark, replayed = logits.split([len(step.y), len(dark_x), len(old_y)])
    loss = current_loss(current, step.y, step.settings.mask)
    return loss + alpha * mse_loss(dark, dark_logits) + beta * cross_entropy(replayed, old_y), current


def derpp(
    tasks: Sequence[Task], model: nn.Module, settings: Settings, alpha: float = 0.1, beta: float = 0.5
) -> Iterator[float | Result]:
    """Learn the tasks in turn; see `common.train`."""
    return train(tasks, model, partial(derpp_loss, alpha=alpha, beta=beta), settings, keep_logits=True)
