"""Experience replay (Chaudhry et al. 2019) in plain torch.

Every step draws as many stored examples as there are new ones. Both go through the network in ONE forward pass, so that
BatchNorm normalises them together, and the loss is

    CE(current examples) + CE(replayed examples)

Stored are the images as they came, before augmentation; each is augmented anew when it is replayed. Replay begins with
the second task: in the first, the memory holds nothing but examples of the task itself.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .common import Result, Settings, Step, Task, current_loss, fine_tuning, train


def er_loss(step: Step) -> tuple[Tensor, Tensor]:
    """Cross-entropy on current and replayed examples, from one pass over both."""
    if step.memory is None:
        return fine_tuning(step)
    old_x, old_y = step.memory.draw(step.settings.batch)
    logits = step.model(torch.cat([step.x, step.augment(old_x)]))
    current, replayed = logits.split([len(step.y), len(old_y)])
    return current_loss(current, step.y, step.settings.mask) + cross_entropy(replayed, old_y), current


def er(tasks: Sequence[Task], model: nn.Module, settings: Settings) -> Iterator[float | Result]:
    """Learn the tasks in turn; see `common.train`."""
    return train(tasks, model, er_loss, settings)
