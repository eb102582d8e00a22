"""Naïve twin of evaluation: one example at a time, one column at a time."""

import torch
from torch import nn

from esacl.streams.base import Stream


def accuracies(model: nn.Module, stream: Stream, split: str) -> tuple[list[float], list[float]]:
    """Task-IL and Class-IL accuracy on each task."""
    model.eval()
    task_il, class_il = [], []
    for task in stream.tasks:
        examples = task.split(split)
        within = overall = 0
        for row in range(len(examples)):
            with torch.no_grad():
                scores = model(stream.inputs.plain(examples.x[row : row + 1])).logits[0].tolist()
            truth = int(examples.y[row])
            within += max(task.classes, key=lambda column: scores[column]) == truth
            overall += max(range(len(scores)), key=lambda column: scores[column]) == truth
        task_il.append(within / len(examples))
        class_il.append(overall / len(examples))
    return task_il, class_il
