"""What `esacl landscape` measures of a run: where it was before its last pruning, where that led, what is around."""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.artifacts import RunDirectory
from esacl.errors import RunError
from esacl.landscape.surface import Loss, across, along, filter_normalised, relative, sharpness
from esacl.nets import Given, NetTraits, is_own
from esacl.nets.network import Network
from esacl.ranking import largest_of_all
from esacl.rng import generator
from esacl.runner import Run, open_finished
from esacl.sparsity.esacl import adaptive_scores, scope_for
from esacl.streams.base import Examples, Stream
from esacl.types import Params

REACH = 1.5  # how far the way to the pruned point is followed, in its own length
BACK = -0.5  # and how far in the opposite direction
WIDE = 1.0  # how far the random direction is followed to both sides, in lengths of filters
Progress = Callable[[int, int], None]  # (points done, points in all)


@dataclass(frozen=True, slots=True)
class Landscape:
    """Losses around the weights θ of a run; the pruned point is at length 1 of the way that leads there."""

    run: str  # name of its directory
    method: str
    stream: str
    seed: int
    sparsity: float  # of the pruned point
    examples: int
    rho: float
    loss: float  # at θ
    pruned_loss: float
    sharpness: float  # at θ
    pruned_sharpness: float
    lengths: list[float]  # along the way to the pruned point
    widths: list[float]  # along a random direction
    to_pruned: list[float]
    sideways: list[float]
    plane: list[list[float]] = field(default_factory=list)  # [width][length]

    @property
    def relative_sharpness(self) -> float:
        """Sharpness at θ over the loss there: where the loss is small, so is its growth within a fixed ρ."""
        return relative(self.sharpness, self.loss)

    @property
    def pruned_relative_sharpness(self) -> float:
        """The same at the pruned point."""
        return relative(self.pruned_sharpness, self.pruned_loss)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        names = ("relative_sharpness", "pruned_relative_sharpness")
        return {"schema": 1, **asdict(self), **{name: getattr(self, name) for name in names}}


def landscape(
    out: Path,
    steps: int = 17,
    examples: int = 512,
    rho: float = 0.05,
    sparsity: float = 0.8,
    progress: Progress = lambda done, total: None,
    backbone: Given | None = None,
    code: Collection[str] = (),
) -> Landscape:
    """Measure the surroundings of a finished run; `sparsity` is for networks that were not pruned themselves.

    `backbone` is the code of a network of the user's own, which runs of other networks have no use for; `code` names
    other code that the run's settings may start.
    """
    directory = RunDirectory(out)
    directory.config()  # says what is wrong where there is no run
    if directory.read_results() is None:
        raise RunError(f"the run in {str(out)!r} is not finished. Finish it first: `esacl resume {out}`.")
    own = backbone if is_own(directory.config().net.backbone) else None
    with open_finished(out, backbone=own, code=code) as run:
        net, parts = run.trainer.net, run.trainer.parts
        if parts.needs_task:
            raise RunError(
                f"{run.config.method} has other weights for every task, so there is no single point to look around. "
                f"Choose a run of a method that needs no task id."
            )
        if parts.sparsity.removes_channels:
            raise RunError(
                f"{run.config.composition} removed whole channels, so no way leads from its weights to the pruned "
                f"ones. Choose a run with sparsity.unit = 'weight'."
            )
        if run.config.parts.average not in (None, "last"):
            raise RunError(
                f"{run.config.composition} answers with an average of weights, and no checkpoint has the one before "
                f"pruning. Choose a run with --average last."
            )
        weights, pruned = _points(run, sparsity)
        x, y = _sample(run.stream, examples, run.config.seed)
        return _measured(run, _loss(net, run, x, y), weights, pruned, steps, rho, progress, len(y))


def _measured(
    run: Run, loss: Loss, weights: Params, pruned: Params, steps: int, rho: float, progress: Progress, examples: int
) -> Landscape:
    names = run.trainer.net.partition.prunable
    way = {name: pruned[name] - weights[name] for name in weights}
    beside = filter_normalised(weights, names, generator(run.config.seed, "landscape"))
    lengths, widths = np.linspace(BACK, REACH, steps).tolist(), np.linspace(-WIDE, WIDE, steps).tolist()
    total, values = steps * (steps + 2), []
    measured = (
        value
        for part in (
            along(loss, weights, way, lengths),
            along(loss, weights, beside, widths),
            across(loss, weights, way, beside, lengths, widths),
        )
        for value in part
    )
    for value in measured:
        values.append(value)
        progress(len(values), total)
    zeros = sum(int((pruned[name] == 0).sum()) for name in names)
    return Landscape(
        run=run.directory.path.resolve().name,
        method=run.config.method,
        stream=run.config.stream.name,
        seed=run.config.seed,
        sparsity=zeros / sum(pruned[name].numel() for name in names),
        examples=examples,
        rho=rho,
        loss=float(loss(weights)),
        pruned_loss=float(loss(pruned)),
        sharpness=sharpness(loss, weights, rho),
        pruned_sharpness=sharpness(loss, pruned, rho),
        lengths=lengths,
        widths=widths,
        to_pruned=values[:steps],
        sideways=values[steps : 2 * steps],
        plane=np.array(values[2 * steps :]).reshape(steps, steps).tolist(),
    )


def _points(run: Run, sparsity: float) -> tuple[Params, Params]:
    """The weights before the last pruning, and after it: the run's own, or by magnitude where it does not prune."""
    net, strategy = run.trainer.net, run.trainer.parts.sparsity
    final = {name: value.detach().clone() for name, value in net.effective_state().items() if name in net.stored}
    if not strategy.prunes:
        return final, _pruned(final, net, sparsity)
    state = run.directory.checkpoints.before_newest()
    if state is None or state["trainer"]["samples"] != run.trainer.samples:  # there was training in between
        raise RunError(
            f"the weights before the last pruning are not in {str(run.directory.path)!r}: that checkpoint was deleted, "
            f"or a grid of an older version did not keep it. Run it again."
        )
    stored = state["trainer"]["net"]["model"]
    fitted = net.partition.head  # after pruning, by some methods: the same head at both points
    return {name: final[name] if name in fitted else stored[name].to(net.device) for name in final}, final


def _pruned(weights: Params, net: Network, sparsity: float) -> Params:
    """Pruned by magnitude as EsaCL would: layers compete as they do there."""
    names = net.partition.needed()
    sizes = [weights[name].abs() for name in names]
    if scope_for(NetTraits.of(net.model)) == "adaptive":
        sizes = [adaptive_scores(size) for size in sizes]
    kept = largest_of_all(sizes, round((1 - sparsity) * sum(size.numel() for size in sizes)))
    masks = {name: mask.to(net.device) for name, mask in zip(names, kept)}
    return {name: weight * masks[name] if name in masks else weight for name, weight in weights.items()}


def _sample(stream: Stream, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Training examples of all tasks."""
    found = Examples.joined([task.train for task in stream.tasks])
    rows = torch.randperm(len(found), generator=generator(seed, "landscape", "examples"))[:count]
    return found.x[rows], found.y[rows]


def _loss(net: Network, run: Run, x: Tensor, y: Tensor) -> Loss:
    """Cross-entropy over all classes; BatchNorm normalises by these very examples, wherever the weights are."""
    images, truth = run.stream.inputs.plain(x.to(net.device)), y.to(net.device)

    def loss(weights: Params) -> Tensor:
        wanted = any(weight.requires_grad for weight in weights.values())
        with torch.set_grad_enabled(wanted), net.using(weights), net.untracked(), net.meter.account("landscape"):
            net.model.train()
            return cross_entropy(run.trainer.parts.readout.logits(net, images, None), truth)

    return loss
