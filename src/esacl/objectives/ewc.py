"""Elastic weight consolidation (EWC; Kirkpatrick et al. 2017), online by default (Schwarz et al. 2018)."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esacl.code import message
from esacl.errors import ConfigError
from esacl.nets.network import Network
from esacl.nets.widths import Places, taken
from esacl.objectives.base import Objective
from esacl.options import option
from esacl.rng import generator
from esacl.streams.base import Task
from esacl.types import Batch, Context, Outputs, Params, Replay, State

FLOATS = 2**25  # numbers that the gradients of a chunk of examples may take


@dataclass(frozen=True, slots=True)
class EwcOptions:
    """Settings of EWC. λ and the limit were chosen on validation (docs/methods/ewc.md); γ = 1 forgets no task."""

    lam: float = option(1.0, "λ: weight of the penalty", low=0)
    gamma: float = option(1.0, "γ: share of the old importances that is left after each task", low=0, high=1)
    normalise: bool = option(True, "divide the Fisher of each task by its mean over the weights that are not pruned")
    limit: float = option(10.0, "largest entry of a normalised Fisher", low=1)
    online: bool = option(True, "one anchor, the weights after the last task; false: a penalty for each task")
    examples: int | None = option(None, "examples of a task that its Fisher is taken from (default: all)", low=1)


class Ewc(Objective):
    """CE + λ/2 · Σ F (θ − θ*)²: weights that mattered to earlier tasks are held where those tasks left them.

    F ← γ F + the diagonal Fisher of the task just learnt, θ* ← θ. One penalty for each task, Σ_k F_k (θ − θ*_k)², is
    up to a constant that of F = Σ F_k around the mean of the anchors weighted by F_k: it takes no more memory.

    Deviation: each task's Fisher is divided by its mean over the weights that are not pruned, and no entry is larger
    than a limit. A Fisher shrinks with the loss: a task learnt by heart has one smaller by orders of magnitude than a
    task half learnt, and no λ suits both. A few entries are so large that a λ at which all others hold anything would
    diverge on them (docs/methods/ewc.md).
    """

    Options = EwcOptions
    protects = True

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        self.fisher: Params = {}
        self.anchor: Params = {}

    def attach(self, net: Network) -> None:
        """Remember how the weights are laid out; refuse what a Fisher cannot be taken of."""
        self._net = net
        if getattr(net.model, "own", False):
            _check_gradients(net)

    def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor | None:
        """The penalty, from the second task on."""
        if not self.fisher:
            return None
        distances = [
            (fisher * (net.stored[name] - self.anchor[name]).square()).sum() for name, fisher in self.fisher.items()
        ]
        penalty: Tensor = self.options.lam / 2 * torch.stack(distances).sum()
        return penalty

    def narrow(self, places: Mapping[str, Places]) -> None:
        """Weights that went matter to nobody."""
        for held in (self.fisher, self.anchor):
            held.update(
                {name: self._laid_out(name, taken(value, places.get(name, ()))) for name, value in held.items()}
            )

    @torch.no_grad()
    def end_task(self, net: Network, task: Task) -> None:
        """Take the Fisher of the task and move the anchor; a weight that was pruned matters to nobody."""
        new, effective = self._fisher_of(net, task), net.effective_state()
        for name in net.partition.prunable:
            for fisher in (new, self.fisher):
                if name in fisher:
                    fisher[name] = fisher[name].masked_fill(effective[name] == 0, 0.0)
        if self.options.normalise:
            pruned = sum(int((effective[name] == 0).sum()) for name in net.partition.prunable)
            new = self._normalised(new, pruned)
        for name, value in new.items():
            here, total = net.stored[name].detach().clone(), value
            if name in self.fisher:
                total = self.options.gamma * self.fisher[name] + value
                if not self.options.online:
                    here = torch.lerp(self.anchor[name], here, torch.where(total > 0, value / total, 1.0))
            self.fisher[name], self.anchor[name] = total, here

    def _normalised(self, fisher: Params, pruned: int) -> Params:
        """In multiples of the mean over all weights but pruned ones, whose entries are zero; none above the limit."""
        total = torch.stack([value.sum() for value in fisher.values()]).sum()
        live = sum(value.numel() for value in fisher.values()) - pruned
        mean = (total / max(live, 1)).clamp(min=1e-30)
        return {name: (value / mean).clamp(max=self.options.limit) for name, value in fisher.items()}

    def _fisher_of(self, net: Network, task: Task) -> Params:
        """Mean over training examples of the squared gradient of each one's own log-likelihood, at its true label.

        The likelihood is that of training: with --fit-loss ace, over the task's columns.
        """
        device = self.context.device
        columns = torch.tensor(task.classes, device=device)

        def loss(outputs: Outputs, y: Tensor) -> Tensor:
            batch = Batch((), y, y, torch.full_like(y, task.index), y, columns)  # only labels and tasks are read
            return self.fit_loss(outputs, batch).sum()

        order = torch.randperm(len(task.train), generator=generator(self.context.seed, "fisher", task.index))
        rows = order[: self.options.examples]
        size = FLOATS // sum(value.numel() for value in net.stored.values())
        total = {name: torch.zeros_like(value) for name, value in net.stored.items()}
        for part in torch.split(rows, max(1, min(self.context.batch_size, size))):
            x = self.context.inputs.plain(task.train.x[part].to(device))
            for name, gradient in net.example_gradients(loss, x, task.train.y[part].to(device)).items():
                total[name] += gradient.square().sum(0)
        return {name: value / len(rows) for name, value in total.items()}

    def state_dict(self) -> State:
        """Importances and anchor, besides what every objective has."""
        return {**super().state_dict(), "fisher": dict(self.fisher), "anchor": dict(self.anchor)}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before, laid out like the weights: sums are then taken in the same order."""
        super().load_state_dict(state)
        self.fisher, self.anchor = (
            {name: self._laid_out(name, value) for name, value in state[key].items()} for key in ("fisher", "anchor")
        )

    def _laid_out(self, name: str, value: Tensor) -> Tensor:
        """A value in the memory order of the parameter that it belongs to."""
        return torch.empty_like(self._net.stored[name].detach()).copy_(value)


def _check_gradients(net: Network) -> None:
    """Refuse a network of the user's own whose examples have no gradients each, before anything is learnt."""
    twin = Network(deepcopy(net.model), net.shape, net.device)  # with a meter of its own, and no view yet
    x = torch.zeros(2, *net.shape, device=net.device)
    try:
        twin.example_gradients(lambda outputs, _: outputs.logits.square().sum(), x, x)
    except Exception as error:
        reason = message(error)
        raise ConfigError(
            f"ewc takes the gradient of each example by itself, which torch.func.vmap cannot do for this network "
            f"({reason[:120]}{' …' if len(reason) > 120 else ''}). Leave out recurrent layers and branches that depend "
            f"on values, or use another method, such as 'er'."
        ) from None
