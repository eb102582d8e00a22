"""Evaluation: Task-IL and Class-IL accuracy of every task, in one pass, without side effects."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

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
    right = torch.zeros(2, dtype=torch.int64, device=net.device)
    for truth, within, overall in _answers(net, readout, stream, task, split, needs_task_id, batch_size):
        right[0] += (within == truth).sum()
        right[1] += (overall == truth).sum()
    among, all_of_them = right.tolist()
    return among, all_of_them


def answered(
    net: Network, readout: Readout, stream: Stream, split: str, needs_task_id: bool, within: bool, batch_size: int = 256
) -> tuple[Tensor, Tensor]:
    """True columns and answers of every task's examples; `within`: only the columns of the example's task compete."""
    with net.inference("evaluate"):
        batches = [
            torch.stack((truth, among if within else overall)).cpu()
            for task in stream.tasks
            for truth, among, overall in _answers(net, readout, stream, task, split, needs_task_id, batch_size)
        ]
    truth, answers = torch.cat(batches, dim=1)
    return truth, answers


def _answers(
    net: Network, readout: Readout, stream: Stream, task: Task, split: str, needs_task_id: bool, batch_size: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """True columns, answers among the task's columns and answers among all, a batch at a time."""
    examples = task.split(split)
    columns = torch.tensor(task.classes, device=net.device)
    for raw, y in examples.portions(batch_size):
        x, truth = stream.inputs.plain(raw.to(net.device)), y.to(net.device)
        logits = readout.logits(net, x, task.index if needs_task_id else None)
        yield truth, columns[logits[:, columns].argmax(1)], logits.argmax(1)
