"""Parts that exist only to fill every slot in the conformance suite: a masked view, frozen weights, a selection."""

from dataclasses import dataclass

import torch

from esacl.config import NetConfig
from esacl.methods import METHODS, Method, combine
from esacl.methods.catalogue import DERPP, ER, GPM, NISPA
from esacl.optim.constraint import StepConstraint
from esacl.optim.gradient import GradientRule
from esacl.optim.update import UpdateRule
from esacl.options import option
from esacl.rng import generator
from esacl.selection.base import DataSelector
from esacl.sparsity.base import Phase, SparsityStrategy


@dataclass(frozen=True, slots=True)
class MaskOptions:
    level: float = option(0.5, "share of zeros", low=0, high=1)


class RandomMask(SparsityStrategy):
    """Half of the weights are never seen; what a task used is frozen after it; each task has two phases."""

    Options = MaskOptions
    views_weights = True
    observes_gradients = True

    @property
    def target(self):
        return self.options.level

    def attach(self, net):
        draw = generator(self.context.seed, "toy mask")
        self.masks = {n: torch.rand(net.stored[n].shape, generator=draw) > self.target for n in net.partition.prunable}
        self.owned = {n: torch.zeros_like(mask) for n, mask in self.masks.items()}
        self.scores = {n: torch.zeros_like(net.stored[n].detach()) for n in self.masks}

    def view(self, params, task):
        return {name: value * self.masks[name] if name in self.masks else value for name, value in params.items()}

    def next_phase(self, task, done):
        return [Phase("fit", self.context.epochs), Phase("retrain", 1), None][done]

    def observe_gradients(self, gradients, memory):
        remembered = memory()
        for name in self.scores:
            self.scores[name] += gradients[name].abs() + (remembered[name].abs() if remembered else 0)

    def frozen(self):
        return self.owned

    def constrained(self):
        return [name for name, owned in self.owned.items() if owned.any()]

    def constrain(self, name, before, after):
        return torch.where(self.owned[name], before, after)

    def end_task(self, net, task, remembered):
        for name, score in self.scores.items():
            self.owned[name] |= score > score.quantile(0.9)
            score.zero_()

    def state_dict(self):
        return {"masks": dict(self.masks), "owned": dict(self.owned), "scores": dict(self.scores)}

    def load_state_dict(self, state):
        self.masks, self.owned, self.scores = (dict(state[key]) for key in ("masks", "owned", "scores"))


class StillBiases(StepConstraint):
    """The head's bias stays where it is after the first task."""

    still = False

    def constrained(self):
        return ["head.bias"] if self.still else []

    def constrain(self, name, before, after):
        return before

    def end_task(self, net, task):
        self.still = True

    def state_dict(self):
        return {"still": self.still}

    def load_state_dict(self, state):
        self.still = state["still"]


class HardHalf(DataSelector):
    """The harder half of each batch; from the second epoch on, examples of more than average loss.

    It also owns a parameter that no loss depends on: it must be handed to the optimiser and never move.
    """

    ranking = "reuse"

    def attach(self, net):
        self.idle = torch.ones(2, requires_grad=True)

    def extra_parameters(self):
        return {"idle": self.idle}

    def begin_task(self, examples):
        self.losses = torch.zeros(examples)

    def epoch_subset(self, examples, epoch):
        return None if epoch == 0 else (self.losses >= self.losses.mean()).nonzero().squeeze(1)

    def update_set(self, batch, fit):
        return fit.topk(max(1, len(fit) // 2)).indices

    def observe(self, trace):
        self.losses[trace.batch.index] = trace.fit

    def state_dict(self):
        return {"losses": self.losses} if hasattr(self, "losses") else {}

    def load_state_dict(self, state):
        if state:
            self.losses = state["losses"]


class SteepGradient(GradientRule):
    """The plain gradient, by another name."""


class Adam(UpdateRule):
    """An optimiser with more state than SGD."""

    def build(self, net, frozen, steps):
        assert steps > 0
        return torch.optim.Adam([*net.stored.values(), *net.extra.values()], lr=self.options.lr)


MASK = Method("toy mask", {"sparsity": RandomMask, "constraint": StillBiases})
SELECT = Method("toy selection", {"selection": HardHalf, "gradient": SteepGradient, "update": Adam})
SMALL_STEPS = {  # a task has no more than 24 steps
    "update": {"reach": 0.2, "k": 0.2, "radius": 2.0, "averaging": 0.9, "lr": 0.03},
    "sparsity": {"level": 0.5},
}
SETTINGS = {
    "grow": {"update": {"lr": 0.02}},
    "grow convolutional": {"update": {"lr": 0.02}, "net": NetConfig("cnn", 8)},
    **dict.fromkeys(("esacl", "esacl-er", "esacl-der++"), SMALL_STEPS),
    "esacl-der++ sharp": {**SMALL_STEPS, "gradient": {"rho": 0.1, "ascent": "total"}},
    "esacl-der++ every-other": {**SMALL_STEPS, "gradient": {"rho": 0.05, "every": 2}, "selection": {"keep": 0.5}},
    "esacl-der++ convolutional": {  # BatchNorm, channels-last, sums over whole layers
        "net": NetConfig("cnn", 8),
        "update": {"rescale": "gradient", "reach": 2.0, "k": 0.05, "radius": 1.0},
        "sparsity": {"level": 0.2, "form": "freeze"},
        "gradient": {"rho": 0.02},
    },
    "esacl-der++ cycle": {"net": NetConfig("cnn", 8), "sparsity": {"level": 0.5}},
    "esacl-ewc": SMALL_STEPS,
    "ewc convolutional": {"net": NetConfig("cnn", 8)},
    "lwf convolutional": {"net": NetConfig("cnn", 8), "objective": {"warmup": 1}},
    "la-maml convolutional": {  # several glances, through BatchNorm and the inner gradients
        "net": NetConfig("cnn", 8),
        "gradient": {"second_order": True, "slices": 2, "glances": 2},
    },
    "gpm convolutional": {"net": NetConfig("cnn", 16)},  # a narrower one has no room for three tasks
    "gpm separate": {"constraint": {"head": "separate"}},
    "esacl-co2l": SMALL_STEPS,
    "esacl-co2l reuse": {
        **SMALL_STEPS,
        "gradient": {"rho": 0.05},
        "selection": {"keep": 0.5, "rule": "loss", "ranking": "reuse"},
    },
    "co2l convolutional": {"net": NetConfig("cnn", 8), "update": {"lr": 0.03}},
    "icarl convolutional": {"net": NetConfig("cnn", 8)},
    "sparcl convolutional": {"net": NetConfig("cnn", 8), "sparsity": {"level": 0.5, "refresh": 2}},
    "sparcl-der++ code": {"net": NetConfig("cnn", 8), "sparsity": {"level": 0.5, "rule": "code"}},
    "nispa": {"sparsity": {"level": 0.5}},  # of 16 units
    "nispa convolutional": {  # as for gpm, a narrower one has no room for three tasks
        "net": NetConfig("cnn", 16),
        "sparsity": {"level": 0.5, "recalibrate": "mixed"},
    },
    "packnet convolutional": {"net": NetConfig("cnn", 8)},
    "packnet first": {
        "net": NetConfig("cnn", 8),
        "sparsity": {"norms": "first", "quota": "share", "retrain": 1.0, "recalibrate": "task"},
    },
    "packnet kaiming": {"sparsity": {"expand": "kaiming", "level": 0.2}},
    "wsn": {"update": {"lr": 0.01}},  # a task has no more than 24 steps
    "wsn convolutional": {"net": NetConfig("cnn", 8), "update": {"lr": 0.01}},
    "wsn first": {
        "net": NetConfig("cnn", 8),
        "update": {"lr": 0.01},
        "sparsity": {"norms": "first", "scores": "restart"},
    },
    "esacl-der++ random": {**SMALL_STEPS, "selection": {"keep": 0.5}},
    **{
        f"esacl-der++ {ranking}": {
            **SMALL_STEPS,
            "gradient": {"rho": 0.05},
            "selection": {"keep": 0.5, "rule": "loss", "ranking": ranking, "warmup": 1},
        }
        for ranking in ("pass", "reuse", "stale")
    },
}
"""Methods with other settings than their own; a word after the name tells rows of the same method apart."""


def alone(row):
    """Whether a method is its objective (and how it answers) only, so that toys can fill the other slots."""
    return row.trains and set(row.parts) <= {"objective", "readout"}


COMPOSITIONS = {
    **METHODS,
    **{name: METHODS[name.split()[0]] for name in SETTINGS},
    **{f"toymask-{name}": combine("toy", row, MASK) for name, row in METHODS.items() if alone(row)},
    **{f"toyselect-{name}": combine("toy", row, SELECT) for name, row in METHODS.items() if alone(row)},
    "toyall-der++": combine("toy", DERPP, MASK, SELECT),
    "gpm-er": combine("toy", GPM, ER),
    "nispa-er": combine("toy", NISPA, ER),
    "toyall-gpm-er": combine("toy", GPM, ER, SELECT, Method("toy mask", {"sparsity": RandomMask})),
}
