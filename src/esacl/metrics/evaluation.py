"""How good a trained model is on examples with known classes: everything there is to say, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from esacl.metrics.calibration import Bin, calibration_error, fit_temperature, reliability
from esacl.metrics.confusion import ClassScore, class_scores
from esacl.metrics.seeds import accuracy_interval

Label = str | int | float | bool
FEWEST = 20  # examples that a temperature is fitted on


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong answer, and how sure the model was of it."""

    name: str  # of the file, or the number of the example
    truth: Label
    answer: Label
    probability: float
    pixels: Tensor | None = field(default=None, compare=False, repr=False)  # bytes [C, H, W], as the model sees it

    def to_json(self) -> dict[str, Any]:
        """Plain values; the pixels stay out."""
        return {"name": self.name, "class": self.truth, "answer": self.answer, "probability": self.probability}


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Accuracy on the examples of a task's classes."""

    number: int
    classes: tuple[Label, ...]
    examples: int
    task_il: float  # among the classes of the task
    class_il: float  # among all classes

    @property
    def shares(self) -> tuple[float, float]:
        """Both."""
        return self.task_il, self.class_il


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far confidence is to be believed, and the temperature that would mend it (None: nothing to fit it on)."""

    error: float  # ECE on everything that was judged
    bins: tuple[Bin, ...]
    temperature: float | None = None
    fitted_on: str | None = None  # what it was fitted on, in words
    fitted: int = 0  # ... and how many examples those were
    judged: int = 0  # examples that both figures below are of: none of them was fitted on
    error_before: float | None = None
    error_after: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good a model is on some data. Classes are in the order in which they were learnt."""

    model: str
    data: str
    method: str
    classes: tuple[Label, ...]
    confusion: tuple[tuple[int, ...], ...]  # row: true class, column: answer
    calibration: Calibration
    tasks: tuple[TaskScore, ...] = ()
    mistakes: tuple[Mistake, ...] = ()  # the most confident first
    unknown: Mapping[str, int] = field(default_factory=dict)  # examples of classes that the model does not know
    unreadable: Mapping[str, str] = field(default_factory=dict)  # file and reason
    history: Sequence[Mapping[str, Any]] = ()  # what the model has noted on its held-out examples

    @property
    def examples(self) -> int:
        """How many were judged."""
        return sum(map(sum, self.confusion))

    @property
    def right(self) -> int:
        """How many were answered rightly."""
        return sum(row[place] for place, row in enumerate(self.confusion))

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return self.right / self.examples

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return accuracy_interval(self.right, self.examples)

    @property
    def scores(self) -> list[ClassScore]:
        """Precision, recall and count of each class."""
        return class_scores(self.confusion)

    @property
    def mean_recall(self) -> float:
        """Accuracy in which every class counts the same."""
        return fmean(each.recall for each in self.scores if each.recall is not None)

    def confusions(self, most: int) -> list[tuple[Label, Label, int]]:
        """The pairs that are confused most often: class, answer, how often."""
        wrong = [
            (count, place, other)
            for place, row in enumerate(self.confusion)
            for other, count in enumerate(row)
            if count and other != place
        ]
        wrong.sort(key=lambda each: (-each[0], each[1], each[2]))
        return [(self.classes[place], self.classes[other], count) for count, place, other in wrong[:most]]

    def to_json(self) -> dict[str, Any]:
        """A document of plain values."""
        return {
            "schema": 1,
            "model": self.model,
            "data": self.data,
            "method": self.method,
            "examples": self.examples,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "mean_recall": self.mean_recall,
            "classes": [{"class": name, **asdict(score)} for name, score in zip(self.classes, self.scores)],
            "confusion": [list(row) for row in self.confusion],
            "tasks": [asdict(task) for task in self.tasks],
            "calibration": asdict(self.calibration),
            "mistakes": [mistake.to_json() for mistake in self.mistakes],
            "unknown": dict(self.unknown),
            "unreadable": [{"path": path, "reason": reason} for path, reason in self.unreadable.items()],
            "history": [dict(entry) for entry in self.history],
        }


def calibration(logits: Tensor, truth: Tensor, known: tuple[Tensor, Tensor, str] | None) -> Calibration:
    """Calibration of these answers; the temperature is fitted on other logits and classes if any are known.

    Else on every second example of each class, and then both errors are of the others.
    """
    whole = _bins(logits, truth, 1.0)
    found = Calibration(calibration_error(whole), tuple(whole))
    if known is not None:
        (given, wanted, words), rest = known, torch.ones(len(truth), dtype=torch.bool)
    elif len(truth) >= 2 * FEWEST:
        rest = _every_second(truth)
        given, wanted, words = logits[~rest], truth[~rest], "every second example of each class"
    else:
        return found
    if bool((given.argmax(1) == wanted).all()):  # the colder the better: no temperature is the best
        return replace(found, fitted_on=words, fitted=len(wanted))
    temperature = fit_temperature(given, wanted)
    before, after = (calibration_error(_bins(logits[rest], truth[rest], each)) for each in (1.0, temperature))
    return Calibration(found.error, found.bins, temperature, words, len(wanted), int(rest.sum()), before, after)


def _bins(logits: Tensor, truth: Tensor, temperature: float) -> list[Bin]:
    confidence, answers = (logits.double() / temperature).softmax(1).max(1)
    return reliability(confidence, answers == truth)


def _every_second(truth: Tensor) -> Tensor:
    """Which examples are the second, fourth, … of their class."""
    chosen = torch.zeros(len(truth), dtype=torch.bool)
    for column in sorted(set(truth.tolist())):
        chosen[(truth == column).nonzero().flatten()[1::2]] = True
    return chosen
