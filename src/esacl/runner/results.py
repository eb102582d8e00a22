"""The figures of a trained run, from what its trainer has counted."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

import torch

from esacl.artifacts import Results
from esacl.budget import decides_epochs
from esacl.config import Config
from esacl.metrics.accuracy import average_accuracy, backward_transfer, forgetting, forward_transfer, pruning_drops
from esacl.metrics.capacity import capacity, measured_capacity
from esacl.metrics.confusion import MOST_CLASSES, confusion_matrix
from esacl.metrics.cost import credit, flops
from esacl.metrics.memory import footprint, kept_bytes, tensor_bytes
from esacl.results import Spending
from esacl.training.evaluate import answered
from esacl.training.trainer import Trainer
from esacl.version import __version__

Rows = list[list[float]] | None


def figures(trainer: Trainer, config: Config, seconds: float, peak_memory: int) -> Results:
    """What a run has to show, with the time it took and the most memory."""
    net, sparsity, stream = trainer.net, trainer.parts.sparsity, trainer.stream
    untrained = trainer.untrained
    assert untrained is not None
    task_rows = [list(row.task_il) for row in trainer.rows]
    class_rows = [list(row.class_il) for row in trainer.rows if row.class_il is not None] or None
    matrix: dict[str, Rows] = {"task_il": task_rows, "class_il": class_rows}
    start = asdict(untrained)
    shares = sparsity.density(net)
    sizes = {name: net.sizes[name] for name in shares}
    density = net.in_use(shares)
    meter, widest = net.meter, net.at_widest()
    trained = trainer.pace.epochs
    epochs = fmean(trained) if trained else config.train.epochs
    return Results(
        method=config.composition,
        stream=config.stream.name,
        seed=config.seed,
        sparsity=sparsity.target,
        epochs=round(epochs),
        tasks=len(stream.tasks),
        logit_mask="batch" if config.train.fit_loss == "ace" else "none",
        columns=config.train.columns,
        split=config.train.split,
        task_il=average_accuracy(task_rows),
        class_il=average_accuracy(class_rows) if class_rows else None,
        matrix=matrix,
        forgetting={name: forgetting(m) if m else None for name, m in matrix.items()},
        bwt={name: backward_transfer(m) if m else None for name, m in matrix.items()},
        fwt={name: _forward_transfer(trainer, m, start[name]) for name, m in matrix.items()},
        density=density,
        capacity=capacity(density, len(stream.tasks), sparsity.stores_masks),
        flops=flops(
            trainer.paper_macs,
            meter.sparse_macs["train"],
            meter.executed_macs["train"],
            _credited(trainer, widest.meter.dense, epochs, density),
        ),
        seconds={"total": seconds, **trainer.seconds},
        peak_memory_bytes=peak_memory,
        footprint_bytes=footprint(widest, meter.largest_step),
        measured_capacity=measured_capacity(density, sizes, sparsity.masks(net), trainer.parts.task_state()),
        remembered_bytes=tensor_bytes(trainer.parts.state_dict()),
        task_classes=[[stream.class_names[column] for column in task.classes] for task in stream.tasks],
        pruning_drop=_pruning_drop(trainer, matrix),
        budget=_spending(trainer, config),
        confusion=_confusion(trainer, config.train.split, within=class_rows is None),
        versions={"esacl": __version__, "torch": torch.__version__, "python": platform.python_version()},
    )


def _confusion(trainer: Trainer, split: str, within: bool) -> list[list[int]] | None:
    """Which classes are taken for which after the last task; None where there are too many to be shown."""
    net, parts, stream = trainer.net, trainer.parts, trainer.stream
    learnt = list(dict.fromkeys(column for task in stream.tasks for column in task.classes))
    if not len(learnt) == len(stream.class_names) <= MOST_CLASSES:
        return None
    with net.whole(), parts.average.answering(net):
        truth, answers = answered(net, parts.readout, stream, split, parts.needs_task, within)
    found: list[list[int]] = confusion_matrix(truth, answers, len(learnt))[learnt][:, learnt].tolist()
    return found


def _spending(trainer: Trainer, config: Config) -> Spending | None:
    """What became of the budget."""
    asked = config.train.budget
    if asked is None:
        return None
    spent = trainer.pace.spent() if decides_epochs(asked) else kept_bytes(trainer.net, trainer.parts)
    return Spending(asked, spent, list(trainer.pace.epochs))


def _credited(trainer: Trainer, dense: int, epochs: float, density: float) -> float:
    """Multiply-adds by the paper's own accounting: those of the dense base, by what is left after pruning."""
    whole = 3 * dense * epochs * sum(len(stage.train) for stage in trainer.stream.stages)
    parts = trainer.parts
    return whole * credit(density, parts.selection.kept_share, parts.gradient.passes)


def _forward_transfer(trainer: Trainer, rows: Rows, untrained: Sequence[float] | None) -> float | None:
    """Not defined for a readout that can only answer what it has seen."""
    if rows is None or untrained is None or not trainer.parts.readout.answers_unseen:
        return None
    return forward_transfer(rows, untrained)


def _pruning_drop(trainer: Trainer, after: Mapping[str, Rows]) -> dict[str, list[float]]:
    """What one-shot pruning cost, where it was measured after every stage."""
    if len(trainer.unpruned) < len(trainer.rows):
        return {}
    before = {name: [asdict(row)[name] for row in trainer.unpruned] for name in after}
    return {name: pruning_drops(before[name], rows) for name, rows in after.items() if rows}
