"""Evaluation: Task-IL and Class-IL accuracy of every task, in one pass, without side effects."""

from dataclasses import dataclass

import torch

from esacl.documents import Share
from esacl.nets.network import Network
from esacl.readouts.base import Readout
from esacl.streams.base import Stream, Task


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Accuracy on each task, as fractions; no Class-IL for methods that must be told the task."""

    task_il: tuple[Share, ...]
    class_il: tuple[Share, ...] | None


def evaluate(
    net: Network, readout: Readout, stream: Stream, split: str, needs_task_id: bool = False, batch_size: int = 256
) -> Accuracies:
    """Accuracy on every task of the stream. Task-IL: only the task's own columns compete; Class-IL: all do."""
    with net.inference("evaluate"):
        pairs = [_correct(net, readout, stream, task, split, needs_task_id, batch_size) for task in stream.tasks]
    sizes = [len(task.split(split)) for task in stream.tasks]
    task_il = tuple(right / size for (right, _), size in zip(pairs, sizes))
    class_il = tuple(right / size for (_, right), size in zip(pairs, sizes))
    return Accuracies(task_il, None if needs_task_id else class_il)


def _correct(
    net: Network, readout: Readout, stream: Stream, task: Task, split: str, needs_task_id: bool, batch_size: int
) -> tuple[int, int]:
    """Right answers of a task's examples in Task-IL and in Class-IL."""
    examples = task.split(split)
    columns = torch.tensor(task.classes, device=net.device)
    right = torch.zeros(2, dtype=torch.int64, device=net.device)
    for raw, y in examples.portions(batch_size):
        x, truth = stream.inputs.plain(raw.to(net.device)), y.to(net.device)
        logits = readout.logits(net, x, task.index if needs_task_id else None)
        right[0] += (columns[logits[:, columns].argmax(1)] == truth).sum()
        right[1] += (logits.argmax(1) == truth).sum()
    within, overall = right.tolist()
    return within, overall
