"""Examples, tasks and streams: what the rest of the library sees of any data set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import torch
from torch import Tensor
from torch.utils.data import Dataset

from esacl.streams.inputs import ImageInputs
from esacl.streams.listing import LeftOut
from esacl.streams.rows import PORTION, Rows, identity, joined, portions, taken

SHOWN = 10  # classes of a task that its repr lists


@dataclass(frozen=True, slots=True, repr=False)
class Examples(Dataset[tuple[Tensor, int]]):
    """Stored examples: images are uint8; feature arrays are float32. A torch `Dataset` of (x, column).

    `x` is a tensor, or, for photos that do not fit into memory, reads the rows that it is indexed by.
    """

    x: Rows  # [N, C, H, W]
    y: Tensor  # [N] int64

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.x[index], int(self.y[index])

    def __repr__(self) -> str:
        return f"Examples({len(self)} of {_by(self.x.shape[1:])}, {str(self.x.dtype).removeprefix('torch.')})"

    def take(self, rows: Tensor) -> "Examples":
        """The examples at `rows`."""
        return Examples(taken(self.x, rows), self.y[rows])

    @staticmethod
    def joined(parts: Sequence["Examples"]) -> "Examples":
        """Several one after the other."""
        return Examples(joined([part.x for part in parts]), torch.cat([part.y for part in parts]))

    def portions(self, size: int = PORTION) -> Iterator[tuple[Tensor, Tensor]]:
        """All images and columns in their order, so many at a time."""
        return zip(portions(self.x, size), torch.split(self.y, size))


@dataclass(frozen=True, slots=True)
class Source:
    """A labelled data set before it is split into tasks: what a reader returns."""

    name: str
    class_names: tuple[str, ...]
    train: Examples
    test: Examples
    inputs: ImageInputs
    left_out: LeftOut | None = None  # files of a folder


@dataclass(frozen=True, slots=True, repr=False)
class Task:
    """The classes that arrive together, as columns of the head, and their three splits."""

    index: int
    classes: tuple[int, ...]
    train: Examples
    validation: Examples
    test: Examples

    def split(self, name: str) -> Examples:
        """The examples of "train", "validation" or "test"."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[name]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(self.split(name))} {name}" for name in ("train", "validation", "test"))
        shown = [*map(str, self.classes[:SHOWN]), *(["…"] if len(self.classes) > SHOWN else [])]
        return f"Task({self.index}: classes {' '.join(shown)}; {sizes})"


@dataclass(frozen=True, slots=True, repr=False)
class Stream:
    """A sequence of tasks. `stages` are what is trained in turn; `tasks` are what is evaluated, if anything is."""

    name: str
    class_names: tuple[str, ...]  # by column
    tasks: tuple[Task, ...]
    stages: tuple[Task, ...]
    inputs: ImageInputs
    left_out: LeftOut | None = None  # files of a folder, which may become more while it is read

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of an example as the network reads it."""
        return self.inputs.shape(self.stages[0].train.x.shape[1:])

    def __repr__(self) -> str:
        kind = ", the same in every task" if self.same_classes else ""
        tasks = len(self.tasks or self.stages)
        return f"Stream({self.name}: {tasks} tasks, {len(self.class_names)} classes{kind}, {_by(self.shape)})"

    @property
    def same_classes(self) -> bool:
        """Whether every one of several tasks has the same classes: domain-incremental."""
        return len(self.tasks) > 1 and len({frozenset(task.classes) for task in self.tasks}) == 1

    @property
    def shares_classes(self) -> bool:
        """Whether some class is trained in several tasks."""
        return sum(len(stage.classes) for stage in self.stages) > len(
            {c for stage in self.stages for c in stage.classes}
        )

    @property
    def task_of(self) -> Tensor:
        """The task of each column: the last that has its class; -1 where none has it yet."""
        return self._owners(self.tasks or self.stages)

    def task_of_at(self, stage: int) -> Tensor:
        """The same while a stage is trained: the last task up to it that has the class."""
        whole = self.tasks and len(self.tasks) != len(self.stages)  # all tasks at once
        return self.task_of if whole else self._owners(self.stages[: stage + 1])

    def _owners(self, tasks: Sequence[Task]) -> Tensor:
        owner = torch.full((len(self.class_names),), -1)
        for task in tasks:
            owner[list(task.classes)] = task.index
        return owner

    def joint(self) -> "Stream":
        """The same tasks, trained all at once: the upper bound."""
        parts = [Examples.joined([task.split(name) for task in self.tasks]) for name in ("train", "validation", "test")]
        classes = tuple(dict.fromkeys(column for task in self.tasks for column in task.classes))
        return replace(self, stages=(Task(0, classes, *parts),))

    def fingerprint(self) -> str:
        """A short digest of labels, shapes and a sample of the values: tells one data set from another."""
        digest = sha256(repr((self.class_names, self.inputs)).encode())
        for task in self.tasks:
            for examples in (task.train, task.validation, task.test):
                digest.update(repr((tuple(examples.x.shape), str(examples.x.dtype))).encode())
                digest.update(examples.y.numpy().tobytes())
                digest.update(identity(examples.x))
        return digest.hexdigest()[:16]


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
