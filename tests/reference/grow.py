"""Growth, written naïvely: the whole network is called at full width, and whatever may not move is put back."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def train_branch(
    model: nn.Module,
    free: dict[str, Tensor],
    still: list[nn.Module],
    batches: list[tuple[Tensor, Tensor]],
    classes: list[int],
    lr: float,
) -> None:
    """SGD on the cross-entropy among a task's classes; `free` are masks of what moves, by parameter and statistic.

    `still` are the norms of a trunk that is trained: they use the statistics that they have.
    """
    for x, y in batches:
        model.train()
        for norm in still:
            norm.eval()
        before = {name: value.detach().clone() for name, value in model.state_dict().items()}
        model.zero_grad()
        logits = model(x).logits[:, classes]
        cross_entropy(logits, y - classes[0]).backward()
        with torch.no_grad():
            for value in model.parameters():
                value -= lr * (torch.zeros_like(value) if value.grad is None else value.grad)
            for name, value in model.state_dict().items():
                if value.is_floating_point():
                    value.copy_(torch.where(free[name], value, before[name]))
