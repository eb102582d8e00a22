"""Class-balanced logistic regression, to convergence and always from zero."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def fit_logistic(features: Tensor, labels: Tensor, decay: float, iterations: int) -> tuple[Tensor, Tensor, int]:
    """Weights and biases that minimise the class-balanced cross-entropy + decay/2 · ‖W‖²; and the multiply-adds.

    By L-BFGS in torch: 0.05 s for 500 × 128 features; scikit-learn takes 0.02 s, and 0.6 s to be imported.
    """
    classes = int(labels.max()) + 1
    balance = len(labels) / (classes * labels.bincount(minlength=classes).to(features))
    weight = features.new_zeros(classes, features.shape[1], requires_grad=True)
    bias = features.new_zeros(classes, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=iterations, line_search_fn="strong_wolfe")
    calls = 0

    def loss() -> Tensor:
        nonlocal calls
        calls += 1
        solver.zero_grad()
        each = cross_entropy(features @ weight.T + bias, labels, reduction="none")
        value = (balance[labels] * each).mean() + decay / 2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        solver.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach(), 3 * calls * features.numel() * classes
