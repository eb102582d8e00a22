"""EWC one example and one weight at a time."""

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from esacl.nets import Network
from esacl.types import Params


def fisher(net: Network, x: Tensor, y: Tensor, columns: list[int]) -> Params:
    """Mean of the squared gradient of log p(true label), p a softmax over some columns."""
    names, values = zip(*net.stored.items())
    total = {name: torch.zeros_like(value) for name, value in net.stored.items()}
    net.model.eval()
    for image, label in zip(x, y.tolist()):
        logits = net(image.unsqueeze(0)).logits[0, columns]
        likelihood = log_softmax(logits, 0)[columns.index(label)]
        for name, gradient in zip(names, torch.autograd.grad(likelihood, values)):
            total[name] += gradient * gradient
    net.model.train()
    return {name: value / len(x) for name, value in total.items()}


def penalty(lam: float, fisher: Params, anchor: Params, weights: Params) -> float:
    """λ/2 · Σ F (θ − θ*)²."""
    total = 0.0
    for name in fisher:
        rows = zip(fisher[name].flatten().tolist(), weights[name].flatten().tolist(), anchor[name].flatten().tolist())
        for importance, here, there in rows:
            total += importance * (here - there) ** 2
    return lam / 2 * total


def normalised(fisher: Params, live: Params, limit: float) -> Params:
    """Each entry over the mean of the live ones, at most the limit; 0 for the others. Without a mask all are live."""
    masks = {name: live.get(name, torch.ones_like(value, dtype=torch.bool)) for name, value in fisher.items()}
    counted = [f for n, v in fisher.items() for f, m in zip(v.flatten().tolist(), masks[n].flatten().tolist()) if m]
    mean = sum(counted) / len(counted)
    return {name: torch.where(masks[name], (value / mean).clamp(max=limit), 0.0) for name, value in fisher.items()}
