"""NISPA (Gurbuz & Dovrolis 2022): units that carry a task are fixed with all they read; the others are wired anew."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, cos, pi
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from esacl.nets.connections import HEAD, IMAGE
from esacl.nets.frozen_batchnorm import StillChannels
from esacl.nets.network import Network
from esacl.options import option
from esacl.rng import generator
from esacl.sparsity.base import DenseOptions, Phase, SparsityStrategy
from esacl.sparsity.masks import packed, unpacked
from esacl.sparsity.stable_units import mean_activity, stable_units
from esacl.sparsity.wiring import Wiring, along
from esacl.streams.base import Examples, Task
from esacl.types import Columns, Params, State

PORTION = 256  # examples that the network sees together
LONGEST = 5  # epochs of a phase
UNTESTED = 2  # phases before validation accuracy can end a task: one without a choice, one to recover from the first


@dataclass(frozen=True, slots=True)
class NispaOptions(DenseOptions):
    """Settings of NISPA. Phases and tolerance are the authors', whose cosine has 30 steps and whose epochs no end."""

    level: float = option(0.8, "share of the prunable weights that are zero, at all times", low=0.5, high=0.9999)
    phase_epochs: int | None = option(
        None, "most epochs of a phase (default: 5, or half of a task's where that is less)", low=1, high=1_000_000
    )
    steps: int | None = option(
        None, "phases in which τ falls from 1 to 0 (default: one more than a task has)", low=2, high=1_000_000
    )
    tolerance: float = option(
        0.75, "points of validation accuracy below the best at which a task's phases end", low=0, high=100
    )
    examples: int = option(500, "examples of a task from which activations are taken", low=1, high=1_000_000)


class Nispa(SparsityStrategy):
    """Stable units read only stable units, by edges that stay as they were when the units' task ended.

    The units of a group (`esacl.nets.connections`) are stable or plastic; those of the image are stable, as nothing
    changes them. After phase t the fewest units that carry the share τ = (1 + cos(π t / steps)) / 2 of a group's
    activation become stable; edges from plastic into stable units are dropped and as many are grown at random.

    Deviation: activation of units that are stable already counts towards τ, and the head is dense (docs/decisions.md).
    """

    Options: ClassVar[type[Any]] = NispaOptions
    needs_validation = True
    holds_classes = True

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """The task's: its authors have a head for each."""
        return "task"

    @property
    def target(self) -> float:
        """Sparsity at all times."""
        return float(self.options.level)

    def attach(self, net: Network) -> None:
        """Live edges at random, all units plastic."""
        self.wiring = Wiring(net, 1 - self.target, self.context.seed)
        self.stable: Params = {  # units that carry this task or an earlier one, by group
            group: torch.full((units,), group == IMAGE, device=net.device) for group, units in self.wiring.units.items()
        }
        self.held = dict(self.stable)  # those of tasks that have ended
        self._still = StillChannels(net)
        with torch.no_grad():
            for weight in self.wiring.live:
                net.stored[weight].mul_(along(self.wiring.gain(weight), net.stored[weight]))
        self._cut(net)
        self._start()
        self._watch()

    def _start(self) -> None:
        """A task without any phase yet."""
        self.done = 0
        self.best = 0.0  # validation accuracy
        self.ended = False
        self.before: State | None = None  # what the last phase can be undone to

    def _watch(self) -> None:
        """Parameters whose steps are constrained from now on."""
        some = bool(self.held[HEAD].any())
        self._watched = frozenset(self.wiring.writes if some else self.wiring.live)

    @property
    def phases(self) -> int:
        """Phases that the epochs of a task are enough for."""
        longest = self.options.phase_epochs or min(LONGEST, ceil(self.context.epochs / 2))
        return ceil(self.context.epochs / int(longest))

    def next_phase(self, task: int, done: int) -> Phase | None:
        """Until the accuracy falls, or the epochs are used up."""
        if self.ended or done == self.phases:
            return None
        each, more = divmod(self.context.epochs, self.phases)
        return Phase("fit", each + (done < more))

    def frozen(self) -> Params:
        """Dead edges, and those into held units."""
        return self.wiring.shut(self.held)

    def constrained(self) -> Collection[str]:
        """Weights; once a task has ended, also biases and BatchNorm."""
        return self._watched

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """What writes a held unit stays, bit for bit; dead edges are zero."""
        held = self.held[self.wiring.writes[name]]
        return self.wiring.cut(name, torch.where(along(held, after), before, after))

    def begin_task(self, net: Network, task: Task) -> None:
        """Whatever writes plastic units starts anew, on the edges that are live."""
        self._start()
        if task.index == 0:
            return
        for name, group in self.wiring.writes.items():
            self._renew(net, name, ~self.held[group], "refresh", task.index)
        self._still.restart()
        self._cut(net)

    def end_phase(self, net: Network, task: Task, phase: Phase) -> None:
        """Undo the phase and end the task where too much is answered wrongly; else choose stable units anew."""
        self.done += 1
        accuracy = self._accuracy(net, task)
        if self.done > UNTESTED and accuracy < self.best - self.options.tolerance / 100:
            self._undo(net)
            self.ended = True
            return
        self.best = max(self.best, accuracy)
        if self.done < max(self.phases, UNTESTED):  # what is chosen last has no phase to prove itself, unless it is all
            self.before = self._here(net) if self.done >= UNTESTED else None
            self._choose(net, task)

    def _choose(self, net: Network, task: Task) -> None:
        """Stable units of this phase, and edges that suit them; where there is no room for those, none of it."""
        steps = self.options.steps or self.phases + 1
        if self.done >= steps:  # a share of 0 would leave the task without units, and further on the cosine rises again
            return
        share = 0.5 * (1 + cos(pi * self.done / steps))
        readers = [layer for layer in self.wiring.layers if layer.reads != IMAGE]
        chosen = dict(self.held)
        for group, seen in mean_activity(net, readers, self._glimpses(task)).items():
            chosen[group] = stable_units(seen, self.held[group].cpu(), share).to(net.device)
        chosen[HEAD] = self.held[HEAD].index_fill(0, torch.tensor(task.classes, device=net.device), True)
        grown = self.wiring.rewire(chosen, self.held, generator(self.context.seed, "rewire", task.index, self.done))
        if grown is None:
            return
        self.stable = chosen
        for weight, edges in grown.items():
            self._renew(net, weight, edges, "grow", task.index, self.done)
        self._cut(net)

    def _glimpses(self, task: Task) -> Iterator[Tensor]:
        """Some training examples of a task."""
        order = torch.randperm(len(task.train), generator=generator(self.context.seed, "glimpses", task.index))
        for rows in torch.split(order[: self.options.examples], PORTION):
            yield self.context.inputs.plain(task.train.x[rows].to(self.context.device))

    def _accuracy(self, net: Network, task: Task) -> float:
        """Share of a task's validation examples that are answered rightly among its own classes."""
        examples = task.split("validation")
        columns = torch.tensor(task.classes, device=net.device)
        right = torch.zeros((), dtype=torch.int64, device=net.device)
        with net.inference():
            for raw, y in examples.portions(PORTION):
                logits = net(self.context.inputs.plain(raw.to(net.device))).logits[:, columns]
                right += (columns[logits.argmax(1)] == y.to(net.device)).sum()
        return right.item() / len(examples)

    @torch.no_grad()
    def _renew(self, net: Network, name: str, places: Tensor, *draw: str | int) -> None:
        """Fresh values at these units or edges of a parameter, such as it began with."""
        value = net.stored[name]
        fresh = torch.ones(value.shape) if name.endswith(".weight") else torch.zeros(value.shape)
        if value.ndim > 1:
            own = generator(self.context.seed, *draw, name)
            head = name in net.partition.head
            nn.init.kaiming_normal_(fresh, nonlinearity="linear" if head else "relu", generator=own)
            fresh *= along(self.wiring.gain(name), value).cpu()
        value.copy_(torch.where(along(places, value), fresh.to(value.device), value))

    @torch.no_grad()
    def _cut(self, net: Network) -> None:
        """Zeros on dead edges."""
        for weight in self.wiring.live:
            net.stored[weight].copy_(self.wiring.cut(weight, net.stored[weight]))

    def _here(self, net: Network) -> State:
        """The network as it is, with its edges and stable units."""
        model = {name: value.clone() for name, value in net.model.state_dict().items()}
        return {"model": model, "live": self.wiring.state_dict(), "stable": packed(self.stable)}

    def _undo(self, net: Network) -> None:
        """Back to before the last choice."""
        assert self.before is not None
        net.model.load_state_dict(self.before["model"])
        self.wiring.load_state_dict(self.before["live"])
        self.stable = unpacked(self.before["stable"], self.stable)

    def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Hold the units that are stable now: what writes them, and their statistics."""
        self.recalibrate(net, task, remembered)
        self.held = dict(self.stable)
        self._still.keep({norm: self.held[layer.writes] for layer in self.wiring.layers for norm in layer.norms})
        self.before = None
        self._watch()

    def masks(self, net: Network) -> list[Params]:
        """One for all tasks."""
        return [self.wiring.masks()]

    def state_dict(self) -> State:
        """Edges, stable units, how far the task has come, and what its last phase can be undone to."""
        return {
            "live": self.wiring.state_dict(),
            "stable": packed(self.stable),
            "held": packed(self.held),
            "still": self._still.state_dict(),
            "done": self.done,
            "best": self.best,
            "ended": self.ended,
            "before": self.before,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.wiring.load_state_dict(state["live"])
        self.stable, self.held = (unpacked(state[key], self.stable) for key in ("stable", "held"))
        self._still.load_state_dict(state["still"])
        self.done, self.best, self.ended = state["done"], state["best"], state["ended"]
        self.before = state["before"]
        self._watch()
