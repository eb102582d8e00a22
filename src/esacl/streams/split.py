"""From a labelled data set to a stream: class order, tasks of equal size, and three splits that no seed can mix."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from esacl.config import StreamConfig
from esacl.errors import ConfigError
from esacl.rng import generator
from esacl.streams.base import Examples, Source, Stream, Task
from esacl.streams.choose import Limit, choose, cut, rows_by_class
from esacl.streams.inputs import ImageInputs
from esacl.streams.resize import Rule, resized


def split(source: Source, config: StreamConfig, seed: int, default_tasks: int | None = None) -> Stream:
    """The stream that `config` describes; the seed decides the class order (if shuffled) and nothing else."""
    classes = len(source.class_names)
    tasks = task_count(classes, config.tasks, config.classes_per_task, default_tasks)
    order = class_order(classes, config.class_order, seed)
    column = torch.empty(classes, dtype=torch.int64)
    column[order] = torch.arange(classes)
    train, validation, test = _rows(source, config)
    inputs, stored = _sized(source, config)
    gathered = partial(_gathered, size=stored, rule=config.resize, column=column)
    size = classes // tasks
    owned = [order[index * size : (index + 1) * size].tolist() for index in range(tasks)]
    learnt = _blurred([[train[k] for k in own] for own in owned], config.blur)
    parts = []
    for index, own in enumerate(owned):
        parts.append(
            Task(
                index,
                tuple(range(index * size, (index + 1) * size)),
                gathered(source.train, learnt[index]),
                gathered(source.train, [validation[k] for k in own]),
                gathered(source.test, [test[k] for k in own]),
            )
        )
    names = tuple(source.class_names[k] for k in order.tolist())
    inputs = inputs.augmenting(config.augment, min(stored))
    evaluated = tuple(parts)
    stages = evaluated if config.blur == 0 else tuple(map(_with_all_classes, evaluated))
    return Stream(source.name, names, evaluated, stages, inputs, source.left_out)


def _sized(source: Source, config: StreamConfig) -> tuple[ImageInputs, tuple[int, int]]:
    """Inputs at the size that is asked for, and the size that images are stored at: never larger than their own."""
    channels, height, width = source.train.x.shape[1:]
    inputs, side = replace(source.inputs, resize=config.resize), config.image_size
    if side is None:
        return inputs, (height, width)
    if (channels, height) == (1, 1):
        wrong = "{given} is of no use: {name!r} holds features, not images."
        raise ConfigError(wrong, "stream.image_size", side, remedy="Leave it out.", name=source.name)
    if side * side > height * width:
        return replace(inputs, size=side), (height, width)
    return replace(inputs, padding=round(inputs.padding * side / min(height, width))), (side, side)


def _blurred(groups: list[list[Tensor]], share: float) -> list[list[Tensor]]:
    """Rows of each task, by class: a fixed share of every class goes to the other tasks, to each in turn."""
    if share == 0:
        return groups
    if len(groups) == 1:
        wrong = "{given} spreads classes over other tasks, but there is one."
        raise ConfigError(wrong, "stream.blur", share, remedy="Use more {stream.tasks}.")
    blurred: list[list[Tensor]] = [[] for _ in groups]
    for task, own in enumerate(groups):
        others = [other for other in range(len(groups)) if other != task]
        for number, rows in enumerate(own):
            moved = choose(rows, min(round(len(rows) * share), len(rows) - 1), "blur")
            blurred[task].append(rows[~torch.isin(rows, moved)])
            for place in range(len(others)):
                blurred[others[(place + number) % len(others)]].append(moved[place :: len(others)])
    return blurred


def _with_all_classes(task: Task) -> Task:
    """A task as it is trained: with the classes of all its training examples."""
    return replace(task, classes=tuple(sorted(set(task.train.y.tolist()))))


def class_order(classes: int, order: str, seed: int) -> Tensor:
    """The class at each column: as listed, or shuffled by the seed."""
    if order == "fixed":
        return torch.arange(classes)
    return torch.randperm(classes, generator=generator(seed, "class order"))


def task_count(classes: int, tasks: int | None, classes_per_task: int | None, default: int | None = None) -> int:
    """The number of equal tasks, from whichever of the two was given.

    >>> task_count(10, None, 5), task_count(10, 5, None), task_count(9, None, None)
    (2, 5, 3)
    """
    if tasks is None and classes_per_task is None:
        return default if default is not None and classes % default == 0 else _default_tasks(classes)
    if tasks is None or classes_per_task is None:
        parts, given = (tasks, "tasks") if tasks is not None else (classes_per_task, "classes_per_task")
        if parts is None or parts < 1 or classes % parts:
            raise ConfigError(
                "{given} does not divide the {classes} classes of the stream into equal tasks.",
                f"stream.{given}",
                parts,
                allowed=", ".join(map(str, _divisors(classes))),
                classes=classes,
            )
        return parts if given == "tasks" else classes // parts
    if tasks * classes_per_task != classes:
        raise ConfigError(
            "{given} with {stream.classes_per_task:{each}} makes {product} classes, but the stream has {classes}.",
            "stream.tasks",
            tasks,
            remedy="Give one of the two, or numbers whose product is {classes}.",
            each=classes_per_task,
            product=tasks * classes_per_task,
            classes=classes,
        )
    return tasks


def _default_tasks(classes: int) -> int:
    """As many tasks as possible that hold at least two classes; a prime number of classes arrives one by one."""
    return next((classes // size for size in _divisors(classes)[1:-1]), classes)


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]


def _rows(source: Source, config: StreamConfig) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """For each class, the rows of its training, validation and test examples."""
    classes = len(source.class_names)
    limit = Limit(config.limit_per_class, config.limit_order)
    train, validation = [], []
    for name, rows in zip(source.class_names, rows_by_class(source.train.y, classes)):
        limited = limit.of(rows)
        if len(limited) < 2 and config.validation > 0:
            raise ConfigError(
                "class {name!r} has {count} training example after {given}, but one is held out for validation and one "
                "must be left to learn from.",
                "stream.limit_per_class",
                config.limit_per_class,
                allowed="at least 2",
                remedy="Or use {stream.validation:0}, which holds nothing out.",
                name=name,
                count=len(limited),
            )
        kept, held = cut(limited, config.validation, "validation")
        train.append(kept)
        validation.append(held)
    test = [limit.of(rows) for rows in rows_by_class(source.test.y, classes)]
    return train, validation, test


def _gathered(examples: Examples, groups: list[Tensor], column: Tensor, size: tuple[int, int], rule: Rule) -> Examples:
    """The examples of some classes in their stored order, labelled by column: the only copy that is made."""
    own = examples.take(torch.cat(groups).sort().values)
    x = own.x if tuple(own.x.shape[2:]) == size else resized(own.x[:], size, rule)
    return Examples(x, column[own.y])
