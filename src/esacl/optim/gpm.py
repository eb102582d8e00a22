"""Gradient projection memory (GPM; Saha et al. 2021): later steps stay out of the span of earlier tasks' inputs."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from esacl.errors import ConfigError
from esacl.nets.network import Network
from esacl.nets.task_norms import TaskNorms
from esacl.optim.constraint import StepConstraint
from esacl.options import option
from esacl.problem import Problem
from esacl.rng import generator
from esacl.streams.base import Task
from esacl.types import Columns, Context, Params, State

PORTION = 32  # examples that are unfolded at a time: a convolution sees a row for every pixel
CEILING = 0.999  # where growth ends: what is left then is noise, and keeping it would leave later tasks no room
ROUNDING = 1e-12  # share of a layer's energy that double precision cannot tell from zero


@dataclass(frozen=True, slots=True)
class GpmOptions:
    """Settings of GPM. ε and its growth are the authors' for CIFAR-100; they look at 125 examples of a task."""

    share: float = option(0.97, "ε: share of a layer's input energy that is kept after the first task", low=0, high=1)
    growth: float = option(0.003, "what ε grows by with every further task", low=0, high=1)
    examples: int = option(300, "examples of a task whose inputs are looked at", low=1, high=1_000_000)
    head: Literal["projected", "separate"] | None = option(
        None,
        "the head as any layer; or columns of earlier tasks frozen and the others free "
        "(default: separate with the training columns of the task, unless tasks share classes; else projected)",
    )
    norms: Literal["first", "statistics", "own"] = option(
        "first",
        "BatchNorm: as the first task left it; or each task keeps its own statistics, or scales and biases too",
    )


class Gpm(StepConstraint):
    """ΔW ← ΔW − ΔW M Mᵀ, M an orthonormal basis of what the layer read in earlier tasks: Eq. 6 and 7 (projection).

    What cannot be projected would change old answers as well: biases and BatchNorm stay as the first task left them.

    Each task has its own columns of the head, frozen when it ends: the authors' head for each task. Where tasks
    compete in one head (training columns `all`), the head is projected like any layer.

    Deviation: displacements are projected, not gradients, so that weight decay and any optimiser respect the basis.
    """

    Options: ClassVar[type[Any]] = GpmOptions
    reads_layers = True
    fixed_width = True
    untold_columns = "seen"

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        if options.head == "separate" and context.shares_classes:
            raise ConfigError(
                "{given} freezes the columns of earlier tasks, but some classes of the stream are in several tasks.",
                "constraint.head",
                "separate",
                remedy="Use {constraint.head:projected}.",
            )
        self.tasks = 0  # that have ended
        self.seen = torch.empty(0, dtype=torch.int64, device=context.device)  # columns of their classes
        self.bases: Params = {}  # [inputs, directions] by weight, orthonormal columns
        self.norms = TaskNorms()  # of each task that has ended, where it has its own
        self._watched: frozenset[str] = frozenset()

    @classmethod
    def training_columns(cls, options: Mapping[str, Any]) -> Columns | None:
        """The task's: the authors have a head for each. A projected head is ours, and leaves it open."""
        return None if options["head"] == "projected" else "task"

    @classmethod
    def problem(cls, options: Mapping[str, Mapping[str, Any]]) -> Problem | str | None:
        """Statistics that are taken anew would change what earlier tasks see; one part keeps those of each task."""
        wish, norms = options["sparsity"].get("recalibrate", "no"), options["constraint"]["norms"]
        if norms != "first" and "norms" in options["sparsity"]:
            return Problem(
                "the sparsity strategy keeps the normalisation of each task, as would {given}.",
                "constraint.norms",
                norms,
                remedy="Use {constraint.norms:first}.",
            )
        if wish in ("no", None) or norms != "first":  # None: not settled yet
            return None
        return Problem(
            "gpm keeps the BatchNorm statistics of the first task, but {given} takes them anew after every task.",
            "sparsity.recalibrate",
            wish,
            remedy="Use {sparsity.recalibrate:no}, or {constraint.norms:statistics}.",
        )

    @classmethod
    def needs_task(cls, options: Mapping[str, Any]) -> bool:
        """With normalisation of a task's own."""
        return bool(options["norms"] != "first")

    @property
    def views_weights(self) -> bool:
        """With normalisation of a task's own."""
        return self.needs_task({"norms": self.options.norms})

    def view(self, params: Params, task: int | None) -> Params:
        """A finished task is normalised as it was when it ended; any other as the network is now."""
        if task is None or task >= self.tasks:
            return params
        return {**params, **self.norms.of(task)}

    def attach(self, net: Network) -> None:
        """Every parameter will be constrained; those of separate heads in a way of their own."""
        for name in net.partition.prunable:
            if problem := unprojectable(net, name):
                raise ConfigError(
                    f"gpm projects what linear layers and plain convolutions read, but {name!r} {problem}. Use another "
                    f"network, or another method, such as 'esacl-der++'."
                )
        self._own = net.partition.other if self.options.norms == "own" else ()
        self._known = frozenset(net.stored).difference(self._own)
        alone = self.context.columns == "task" and not self.context.shares_classes
        head = self.options.head or ("separate" if alone else "projected")
        self._separate = frozenset(net.partition.head if head == "separate" else ())
        self._meter = net.meter

    def constrained(self) -> Collection[str]:
        """All parameters, from the second task on."""
        return self._watched

    def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
        """The step without its part in the subspace; without a basis no step at all."""
        if name in self._separate:
            return after.index_copy(0, self.seen, before[self.seen])
        basis = self.bases.get(name)
        if basis is None:
            return before
        step = (after - before).flatten(1)
        self._meter.charge(2 * step.shape[0] * basis.numel())
        return before + (step - step @ basis @ basis.T).view(before.shape)

    def end_task(self, net: Network, task: Task) -> None:
        """Extend every layer's basis by what it read in this task; from now on BatchNorm keeps its statistics."""
        share = min(self.options.share + self.options.growth * self.tasks, max(self.options.share, CEILING))
        moments = self._moments(net, task)
        for name in list(moments):
            moment = moments.pop(name)  # the largest matrices: each is freed before the next is decomposed
            basis = self.bases.get(name, torch.empty(len(moment), 0))
            self.bases[name] = extended(basis, moment, share).float().to(net.device)
        self.tasks += 1
        self.seen = torch.cat([self.seen, torch.tensor(task.classes, device=net.device)])
        if self.views_weights:
            self.norms.keep(net, self._own)
        else:
            net.frozen_statistics = True
        self._watched = self._known

    def _moments(self, net: Network, task: Task) -> Params:
        """Σ x xᵀ over the inputs x of every layer, for some examples of a task."""
        draw = generator(self.context.seed, "gpm", task.index)
        chosen = torch.randperm(len(task.train), generator=draw)[: self.options.examples]
        moments: Params = {}

        def note(name: str, rows: Tensor) -> None:
            net.meter.charge(rows.numel() * rows.shape[1])
            moment = rows.T @ rows
            moments[name] = moments[name].add_(moment) if name in moments else moment

        with net.inference(), net.whole(), watched(self._layers(net), note):
            for start in range(0, len(chosen), PORTION):
                images = task.train.x[chosen[start : start + PORTION]]
                net(self.context.inputs.plain(images.to(net.device)))
        return moments

    def _layers(self, net: Network) -> dict[str, nn.Module]:
        """Layers whose steps are projected, by the name of their weight."""
        layers = {f"{name}.weight": module for name, module in net.model.named_modules()}
        return {n: m for n, m in layers.items() if isinstance(m, nn.Conv2d | nn.Linear) and n not in self._separate}

    def state_dict(self) -> State:
        """The bases, and how many tasks of which classes they are for."""
        known = {"tasks": self.tasks, "seen": self.seen, "bases": dict(self.bases)}
        return {**known, "norms": self.norms.state_dict()}

    def task_state(self) -> Params:
        """Normalisation of each task."""
        return self.norms.task_state()

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.tasks, self.seen = state["tasks"], state["seen"].to(self.context.device)
        self.bases = {name: basis.to(self.context.device) for name, basis in state["bases"].items()}
        self.norms.load_state_dict(state.get("norms", []), self.context.device)
        self._watched = self._known if self.tasks else frozenset()


@contextmanager
def watched(layers: Mapping[str, nn.Module], note: Callable[[str, Tensor], None]) -> Iterator[None]:
    """Tell `note` the inputs of these layers, as rows, whenever the network is called."""

    def watch(name: str, layer: nn.Module) -> torch.utils.hooks.RemovableHandle:
        return layer.register_forward_pre_hook(lambda module, given: note(name, input_rows(module, given[0])))

    handles = [watch(name, layer) for name, layer in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def unprojectable(net: Network, name: str) -> str | None:
    """Why it is not known what a weight is multiplied with; None where it is."""
    owner, _, own = name.rpartition(".")
    layer: nn.Module = net.model.get_submodule(owner)
    parent: nn.Module = net.model.get_submodule(owner.rpartition(".")[0])
    if isinstance(layer, nn.MultiheadAttention) or isinstance(parent, nn.MultiheadAttention):
        return "is a weight of attention"
    if own != "weight" or owner not in net.meter.layers:
        return "is not the weight of a layer that is called"
    if isinstance(layer, nn.Linear):
        return None
    if not isinstance(layer, nn.Conv2d):
        return f"is one of {type(layer).__name__}"
    if layer.groups > 1:
        return "is one of a grouped or depthwise convolution"
    strange = isinstance(layer.padding, str) or layer.padding_mode != "zeros"
    return f"is one of a convolution with padding {layer.padding!r} ({layer.padding_mode})" if strange else None


def input_rows(layer: nn.Module, x: Tensor) -> Tensor:
    """What a layer multiplies its weights [out, d] with, [N, d]: its input, or the patches under an ungrouped kernel.

    In double precision and on the CPU, as not every device has it.
    """
    x = x.detach().cpu().double()
    if not isinstance(layer, nn.Conv2d):
        return x.flatten(0, -2)
    patches = unfold(x, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
    return patches.transpose(1, 2).flatten(0, 1)


def extended(basis: Tensor, moment: Tensor, share: float) -> Tensor:
    """An orthonormal basis of `basis` and the fewest further directions that reach the share: Eq. 5, 8 and 9 (bases).

    The directions are leading eigenvectors of Σ x xᵀ outside of the basis, taken until basis and directions together
    hold `share` of Σ |x|².

    >>> extended(torch.empty(3, 0), torch.diag(torch.tensor([1.0, 6.0, 3.0])).double(), 0.85).abs()
    tensor([[0., 0.],
            [1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    size = basis.shape[1]
    frame = torch.linalg.qr(basis.cpu().double(), mode="complete").Q  # the basis first, then what is orthogonal to it
    free = frame[:, size:]
    energies, directions = torch.linalg.eigh(free.T @ moment @ free)
    energies, directions = energies.clamp(min=0).flip(0), directions.flip(1)
    lacking = energies.sum() - (1 - min(share, 1 - ROUNDING)) * moment.trace()
    count = int((energies.cumsum(0) - energies < lacking).sum())
    return torch.cat([frame[:, :size], free @ directions[:, :count]], dim=1)
