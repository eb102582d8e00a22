"""One step: loss → gradient → displacement → constrained displacement."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.nets.network import Network
from esacl.training.parts import Parts
from esacl.types import Batch, Params, Trace


def train_step(net: Network, parts: Parts, optimizer: torch.optim.Optimizer, batch: Batch) -> Trace:
    """Learn from one batch (the paper's Algorithm 1, lines 3-9, with every arrow replaceable).

    The trace is that of the last glance at it: what is remembered of a batch is remembered once.
    """
    for _ in range(parts.gradient.glances):
        trace = parts.gradient.compute_gradients(net, parts.objective, batch, parts.selection)
        net.unscale(optimizer)
        if parts.sparsity.observes_gradients:
            parts.sparsity.observe_gradients(net.gradients(), lambda: memory_gradients(net, parts, len(batch)))
        before = snapshot_constrained(net, parts)
        net.step(optimizer)
        if before:
            apply_constraints(net, parts, before)
        parts.average.after_step(net)
    parts.objective.after_step(net, trace)
    parts.selection.observe(trace)
    return trace


def snapshot_constrained(net: Network, parts: Parts) -> Params:
    """Copies of the parameters that a constraint watches; nothing where none is active."""
    projected, held = parts.constraint.constrained(), {*parts.sparsity.constrained()}
    if parts.update.leaves_frozen and not projected:
        held -= parts.sparsity.frozen().keys()
    return {name: net.stored[name].detach().clone() for name in {*projected, *held}}


@torch.no_grad()
def apply_constraints(net: Network, parts: Parts, before: Params) -> None:
    """Mend the step just taken: project, then freeze and mask."""
    for name, old in before.items():
        new: Tensor = net.stored[name]
        if name in parts.constraint.constrained():
            new = parts.constraint.constrain(name, old, new)
        if name in parts.sparsity.constrained():
            new = parts.sparsity.constrain(name, old, new)
        net.stored[name].copy_(new)


def memory_gradients(net: Network, parts: Parts, count: int) -> Params:
    """Gradients of the cross-entropy on remembered examples; the gradients of the step stay as they are."""
    remembered = parts.objective.memory_batch(count)
    if remembered is None:
        return {}
    x, y = remembered
    names, values = zip(*net.trained.items())
    with net.untracked():
        logits = net(x).logits if parts.objective.trains_head else parts.readout.logits(net, x, None)
        loss = cross_entropy(parts.objective.competing(logits, y), y)
    gradients = torch.autograd.grad(loss, values, allow_unused=True)
    net.meter.release()
    return {name: gradient for name, gradient in zip(names, gradients) if gradient is not None}
