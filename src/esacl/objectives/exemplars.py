"""Exemplars: a memory with equally many examples of every class, mixed into the training set of later tasks."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from esacl.errors import ConfigError
from esacl.nets.network import Network
from esacl.objectives.base import Objective
from esacl.objectives.teacher import Teacher
from esacl.options import option
from esacl.rng import derive, generator
from esacl.streams.base import Examples, Task
from esacl.streams.rows import Rows, joined
from esacl.types import Context, State


class Exemplars:
    """At most `capacity` examples, the same number of each class; within a class the most telling come first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._images: dict[int, Tensor] = {}  # by column, in main memory

    def __len__(self) -> int:
        return sum(map(len, self._images.values()))

    def share(self, columns: Iterable[int]) -> int:
        """How many examples of each class there is room for, once these classes are there too."""
        return self.capacity // len({*self._images, *columns})

    def of(self, column: int) -> Tensor | None:
        """What it holds of a class."""
        return self._images.get(column)

    def add(self, images: dict[int, Tensor]) -> None:
        """Take in classes, each in order and in place of what was held of it; each is trimmed to the share of all."""
        share = self.share(images)
        self._images |= images
        self._images = {column: own[:share].clone() for column, own in self._images.items()}

    def examples(self) -> Examples | None:
        """Everything it holds, class by class."""
        if not self._images:
            return None
        labels = [torch.full((len(own),), column) for column, own in self._images.items()]
        return Examples(torch.cat(list(self._images.values())), torch.cat(labels))

    def state_dict(self) -> State:
        """What it holds."""
        return {"images": dict(self._images)}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self._images = {column: own.cpu() for column, own in state["images"].items()}


@dataclass(frozen=True, slots=True)
class ExemplarOptions:
    """Settings of a memory of exemplars."""

    buffer: int = option(500, "examples kept in all, equally many of each class", low=1, high=10_000_000)


class ExemplarObjective(Objective):
    """Learns a task together with the exemplars of earlier ones, under the eyes of a teacher."""

    Options: ClassVar[type[Any]] = ExemplarOptions

    def __init__(self, options: Any, context: Context) -> None:
        super().__init__(options, context)
        classes = len({column for columns in context.task_classes for column in columns}) or context.classes
        if options.buffer < classes:
            raise ConfigError(
                "{given} is too small: there are {classes} classes, and each needs an example.",
                "objective.buffer",
                options.buffer,
                remedy="Use {objective.buffer:{classes}} or more.",
                classes=classes,
            )
        self.memory = Exemplars(options.buffer)
        self.columns: list[int] = []  # of the present task
        self.old: list[int] = []  # of the tasks before it
        self._draws = 0  # how often the memory was watched

    def attach(self, net: Network) -> None:
        """Nothing to be taught yet."""
        self.teacher = Teacher(net)

    @abstractmethod
    def choose(self, net: Network, images: Rows, column: int, count: int) -> Tensor:
        """Rows of the images of a class that stand for it, the most telling first."""

    def training_set(self, task: Task) -> Examples:
        """The task and the exemplars of earlier ones."""
        stored = self.memory.examples()
        return task.train if stored is None else Examples.joined([task.train, stored])

    def mixed_in(self, earlier: Sequence[Task]) -> int:
        """The share of each earlier class, or all of it where it is smaller."""
        sizes = Counter[int]()
        for task in earlier:
            sizes.update(task.train.y.tolist())
        return sum(min(self.memory.capacity // len(sizes), size) for size in sizes.values())

    def buffer_examples(self) -> Examples | None:
        """The exemplars."""
        return self.memory.examples()

    def memory_batch(self, count: int) -> tuple[Tensor, Tensor] | None:
        """Exemplars of earlier tasks at random, freshly augmented."""
        stored = self.memory.examples()
        if stored is None:
            return None
        seed, device = self.context.seed, self.context.device
        rows = torch.randperm(len(stored), generator=generator(seed, "memory watch", self._draws))[:count]
        key = derive(seed, "augment watch", self._draws)
        self._draws += 1
        raw = stored.x[rows].to(device)
        return self.context.inputs.augmented(raw, key, rows.to(device)), stored.y[rows].to(device)

    def begin_task(self, net: Network, task: Task) -> None:
        """Other columns are the new ones; a class that comes back is learnt from its labels again."""
        super().begin_task(net, task)
        earlier = dict.fromkeys([*self.old, *self.columns])
        self.columns = list(task.classes)
        self.old = [column for column in earlier if column not in self.columns]

    def end_task(self, net: Network, task: Task) -> None:
        """The network becomes the teacher; exemplars of the task's classes join the memory.

        Those of a class that came back are chosen anew, among its examples and what was held of it.
        """
        self.teacher.take()
        count = self.memory.share(task.classes)
        chosen = {}
        for column in task.classes:
            images, held = task.train.take(task.train.y == column).x, self.memory.of(column)
            images = images if held is None else joined([images, held])
            chosen[column] = images[self.choose(net, images, column, min(count, len(images)))]
        self.memory.add(chosen)

    def state_dict(self) -> State:
        """Memory, teacher and columns, besides what every objective has."""
        own = {"columns": list(self.columns), "old": list(self.old), "looks": self._draws}
        return {
            **super().state_dict(),
            **own,
            "memory": self.memory.state_dict(),
            "teacher": self.teacher.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        super().load_state_dict(state)
        self.columns, self.old, self._draws = list(state["columns"]), list(state["old"]), state["looks"]
        self.memory.load_state_dict(state["memory"])
        self.teacher.load_state_dict(state["teacher"])
