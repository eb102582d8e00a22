"""How good a model is: its answers beside the true classes."""

from collections.abc import Collection, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from esacl.deploy.judged import Batch, Judged, judged
from esacl.deploy.model import Trained
from esacl.deploy.opening import of_classifier, open_answering
from esacl.deploy.pictures import AT_ONCE, asked
from esacl.errors import InputError
from esacl.metrics.confusion import confusion_matrix
from esacl.metrics.evaluation import FEWEST, Evaluation, Mistake, TaskScore, calibration
from esacl.nets import Given
from esacl.streams import Stream
from esacl.streams.images import Progress

if TYPE_CHECKING:
    from esacl.estimator import ContinualClassifier

MISTAKES = 24  # of the most confident ones that are kept with their pixels


def evaluate(
    model: "str | PathLike[str] | ContinualClassifier",
    data: str | Path | Stream | tuple[Any, Any],
    task: int | None = None,
    backbone: Given | None = None,
    code: Collection[str] = (),
    data_dir: str | None = None,
    progress: Progress = lambda done, total: None,
) -> Evaluation:
    """How good a model is on data with known classes: accuracy, confusion, calibration, mistakes, tasks, history.

    model: a classifier, or the path of a saved one, of a finished run, of an exported file or of an ONNX graph.
    data: a folder of one sub-folder of images a class, the name of a stream or a stream (its test split), or (X, y).
    task: the task that the model is told, counted from 1; only its classes are answered and judged.
    """
    if isinstance(model, str | PathLike):
        opened, name = open_answering(Path(model), backbone, code), str(model)
    else:
        opened, name = of_classifier(model.saved()), type(model).__name__
    opened = _in_order(opened.for_task(task))
    source = judged(data, opened, progress, data_dir, code)
    module = opened.answering()
    answered = [_Answered(batch, asked(module, scaled(batch.x))[1]) for batch in source if len(batch.y)]
    if not answered:
        raise InputError(_nothing(source, opened))
    return _evaluation(name, opened, source, answered, _known(opened, module))


def scaled(x: Tensor) -> Tensor:
    """Bytes as numbers from 0 to 1; everything else as it is."""
    return x.float() / 255 if x.dtype == torch.uint8 else x.float()


def _in_order(model: Trained) -> Trained:
    """The model with its classes in the order in which they were learnt."""
    learnt = dict.fromkeys(column for own in model.tasks for column in own)
    return model.with_columns((*learnt, *(column for column in range(len(model.classes)) if column not in learnt)))


class _Answered:
    """Answers to a batch, of whose pixels only those of confident mistakes are kept."""

    def __init__(self, batch: Batch, logits: Tensor) -> None:
        self.y, self.logits, self.task = batch.y, logits, batch.task
        confidence, answers = logits.softmax(1).max(1)
        wrong = (answers != batch.y).nonzero().flatten()
        worst = wrong[confidence[wrong].argsort(descending=True, stable=True)[:MISTAKES]].tolist()
        self.worst = [
            (float(confidence[row]), int(batch.y[row]), int(answers[row]), batch.names[row], _pixels(batch.x[row]))
            for row in worst
        ]


def _pixels(x: Tensor) -> Tensor | None:
    return x.clone() if x.dtype == torch.uint8 else None


def _nothing(source: Judged, model: Trained) -> str:
    """Why nothing could be judged."""
    if source.unknown and not source.unreadable:
        names = ", ".join(repr(name) for name in sorted(source.unknown)[:3])
        known = ", ".join(map(repr, model.classes[:3]))
        return (
            f"the model knows none of the classes in {source.name!r}, such as {names}; it knows {known}, … Name the "
            f"sub-folders after its classes: `esacl inspect` lists them."
        )
    return f"{source.name!r} holds no image that can be read. Give one sub-folder of images for each class."


def _known(model: Trained, module: nn.Module) -> tuple[Tensor, Tensor, str] | None:
    """Logits and classes of what the model holds itself: examples that it was not trained on before others."""
    for kept in model.kept:
        if len(kept.y) >= FEWEST:
            parts = torch.split(kept.x, AT_ONCE)
            logits = torch.cat([asked(module, scaled(part))[1] for part in parts])
            return logits, kept.y, kept.what
    return None


def _evaluation(
    name: str,
    model: Trained,
    source: Judged,
    answered: list[_Answered],
    known: tuple[Tensor, Tensor, str] | None,
) -> Evaluation:
    truth, logits = (torch.cat([getattr(each, what) for each in answered]) for what in ("y", "logits"))
    worst = sorted((each for batch in answered for each in batch.worst), key=lambda each: -each[0])[:MISTAKES]
    classes = model.classes
    return Evaluation(
        model=name,
        data=source.name,
        method=model.method,
        classes=classes,
        confusion=tuple(map(tuple, confusion_matrix(truth, logits.argmax(1), len(classes)).tolist())),
        calibration=calibration(logits, truth, known),
        tasks=tuple(_tasks(model, truth, logits, _task_of(model, answered))),
        mistakes=tuple(
            Mistake(place, classes[right], classes[answer], share, pixels)
            for share, right, answer, place, pixels in worst
        ),
        unknown=dict(sorted(source.unknown.items())),
        unreadable=source.unreadable,
        history=model.history,
    )


def _task_of(model: Trained, answered: list[_Answered]) -> Tensor:
    """The task of each example: that of the stream where its tasks share classes, else the first that had its class."""
    first = torch.full((len(model.classes),), -1)
    for number, own in reversed(list(enumerate(model.tasks))):
        first[list(own)] = number
    return torch.cat([first[each.y] if each.task is None else torch.full_like(each.y, each.task) for each in answered])


def _tasks(model: Trained, truth: Tensor, logits: Tensor, task_of: Tensor) -> Iterator[TaskScore]:
    """Accuracy on each task that has examples; nothing where there is only one."""
    for number, own in enumerate(model.tasks if len(model.tasks) > 1 else ()):
        rows, columns = task_of == number, torch.tensor(own, dtype=torch.int64)
        if rows.any():
            within = columns[logits[rows][:, columns].argmax(1)] == truth[rows]
            overall = logits[rows].argmax(1) == truth[rows]
            yield TaskScore(
                number + 1,
                tuple(model.classes[column] for column in own),
                int(rows.sum()),
                float(within.double().mean()),
                float(overall.double().mean()),
            )
