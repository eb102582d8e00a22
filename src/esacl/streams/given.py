"""Other people's data as a stream: whole data sets split by class, or tasks as they were given."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from esacl.config import StreamConfig
from esacl.errors import ConfigError, DataError
from esacl.options import parse
from esacl.streams.arrays import form, from_arrays, labelled_source, measured, scaled
from esacl.streams.base import Examples, Source, Stream, Task
from esacl.streams.labelled import FORMS, Labelled, is_dataset, labelled
from esacl.streams.resize import Rule
from esacl.streams.split import split


def as_stream(
    data: Any,
    test: Any = None,
    *,
    tasks: int | None = None,
    classes_per_task: int | None = None,
    class_order: Literal["fixed", "shuffled"] = "fixed",
    seed: int = 0,
    limit_per_class: int | None = None,
    limit_order: Literal["scattered", "first"] = "scattered",
    validation: float = 0.1,
    blur: float = 0.0,
    image_size: int | None = None,
    resize: Rule = "crop",
    augment: str | bool = "standard",
    columns: tuple[str, str] | None = None,
    name: str | None = None,
) -> Stream:
    """Data of any common form as a stream, to be given to `run` and `resume`.

    One data set is split by class: a torch `Dataset` of (x, label), a Hugging Face dataset (`columns` names that of the
    images and that of the labels) or a pair (X, y). A list of them, or an Avalanche benchmark, is a list of tasks. The
    classes of tasks may be disjoint, shared or the same; a task may also be (X, y, X_test, y_test). `test` holds test
    data of the same form; without any, a fixed fifth of each class is held out. Images are as for `from_arrays`.

    >>> x = torch.arange(24.0).view(12, 2)
    >>> as_stream([(x, [0, 1] * 6), (-x, [0, 1] * 6)])
    Stream(arrays: 2 tasks, 2 classes, the same in every task, 1×1×2)
    """
    settings = {
        "tasks": tasks,
        "classes_per_task": classes_per_task,
        "class_order": class_order,
        "limit_per_class": limit_per_class,
        "limit_order": limit_order,
        "validation": validation,
        "blur": blur,
        "image_size": image_size,
        "resize": resize,
        "augment": augment,
    }
    config = parse(StreamConfig, settings, "as_stream")
    data, test = _parts(data, test)
    if not isinstance(data, list):
        whole = labelled(data, columns)
        held = None if test is None else labelled(test, columns)
        x_test, y_test = (None, None) if held is None else (held.x, held.y)
        stream = from_arrays(whole.x, whole.y, x_test, y_test, seed=seed, name=name, **settings)  # type: ignore[arg-type]
        return _named(stream, [whole])
    for key in ("tasks", "classes_per_task", "class_order", "blur"):
        if settings[key] not in (None, "fixed", 0):
            raise ConfigError(f"{key} = {settings[key]!r} is of no use: the data are a list of tasks. Leave it out.")
    return _from_tasks(data, test, replace(config, tasks=1), seed, columns, name)


def _parts(data: Any, test: Any) -> tuple[Any, Any]:
    """Training and test data: one data set each, or a list for each task."""
    if hasattr(data, "train_stream") and hasattr(data, "test_stream"):
        held = [each.dataset for each in data.test_stream] if test is None else test
        return [each.dataset for each in data.train_stream], held or None
    if isinstance(data, Mapping):
        if "train" not in data:
            raise DataError(f"the data have the parts {', '.join(map(str, data))}, but no 'train'. Give one of them.")
        return data["train"], data.get("test") if test is None else test
    if isinstance(data, tuple) and len(data) == 4:
        return (data[0], data[1]), (data[2], data[3])
    return (list(data) if isinstance(data, tuple) and data and all(map(is_dataset, data)) else data), test


def _from_tasks(
    data: list[Any],
    test: Any,
    config: StreamConfig,
    seed: int,
    columns: tuple[str, str] | None,
    name: str | None,
) -> Stream:
    """One task for each entry."""
    if not data:
        raise DataError(f"the list of tasks is empty. {FORMS}")
    if test is not None and (not isinstance(test, list | tuple) or len(test) != len(data)):
        given = len(test) if isinstance(test, list | tuple) else f"a {type(test).__name__}"
        raise DataError(f"there are {len(data)} tasks, but test is {given}. Give a list with test data for each task.")
    found, sources = [], []
    for number, entry in enumerate(data):
        try:
            train, held = _parts(entry, None if test is None else test[number])
            found.append(labelled(train, columns))
            beside = None if held is None else labelled(held, columns)
            pair = (None, None) if beside is None else (beside.x, beside.y)
            sources.append(labelled_source(found[-1].x, found[-1].y, *pair, validation=config.validation, name=name))
        except DataError as error:
            raise DataError(f"task {number + 1}: {error}") from None
    _check_alike(sources)
    inputs = measured(*(source.train.x[:] for source in sources))
    order = list(dict.fromkeys(label for source in sources for label in source.class_names))
    if len(order) == 1:
        raise DataError(f"all tasks have a single class, {order[0]}; a stream needs at least 2.")
    alone = [split(scaled(source, inputs), config, seed) for source in sources]
    parts = tuple(
        _task(number, each.tasks[0], [order.index(label) for label in source.class_names])
        for number, (source, each) in enumerate(zip(sources, alone))
    )
    return _named(Stream(sources[0].name, tuple(order), parts, parts, alone[0].inputs), found)


def _check_alike(sources: Sequence[Source]) -> None:
    first = sources[0].train.x
    for number, source in enumerate(sources):
        x = source.train.x
        if x.shape[1:] != first.shape[1:] or x.dtype != first.dtype:
            raise DataError(f"task {number + 1} holds {form(x)}, but task 1 holds {form(first)}: make them alike.")


def _task(number: int, only: Task, columns: list[int]) -> Task:
    """A task with its three splits, labelled by the columns of the whole stream."""
    place = torch.tensor(columns)
    parts = (Examples(part.x, place[part.y]) for part in (only.train, only.validation, only.test))
    return Task(number, tuple(sorted(columns)), *parts)


def _named(stream: Stream, found: Sequence[Labelled]) -> Stream:
    """The stream with the class names that the data know."""
    names = {str(label): text for part in found for label, text in (part.names or {}).items()}
    return replace(stream, class_names=tuple(names.get(label, label) for label in stream.class_names))
