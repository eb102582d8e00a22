"""Other people's data: what has the right methods is a stream, whatever library it is from."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from esacl.errors import ConfigError, DataError
from esacl.streams import as_stream

DRAW = np.random.default_rng(0)
IMAGES = DRAW.integers(0, 256, (24, 6, 5, 3), dtype=np.uint8)
FLOATS = torch.from_numpy(IMAGES).permute(0, 3, 1, 2) / 255
Y = [0, 1, 2, 3] * 6
PAIRS = [(FLOATS[:12], Y[:12]), (FLOATS[12:], Y[12:])]


@dataclass
class Pictures(Dataset[Any]):
    """As torchvision's data sets are: images of Pillow, labels, names of classes, and perhaps a transform."""

    x: Any
    y: list[int]
    classes: tuple[str, ...] = ("ant", "bee", "cat", "dog")
    more: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return (Image.fromarray(self.x[index]), self.y[index], *self.more)


class Table:
    """What a Hugging Face dataset has: columns by name, and features that know the names of labels."""

    def __init__(self, **columns: Any) -> None:
        self._columns = columns
        self.column_names = list(columns)
        self.features = {name: SimpleNamespace() for name in columns}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]


def table(image: str = "image", label: str = "label") -> Table:
    made = Table(**{image: [Image.fromarray(each) for each in IMAGES], label: Y})
    made.features[label].names = ["ant", "bee", "cat", "dog"]
    return made


def benchmark(train: list[Any], test: list[Any]) -> Any:
    """What an Avalanche benchmark has."""
    parts = ([SimpleNamespace(dataset=each) for each in side] for side in (train, test))
    return SimpleNamespace(**dict(zip(("train_stream", "test_stream"), parts)))


def columns_of(stream: Any) -> list[tuple[int, ...]]:
    return [task.classes for task in stream.tasks]


def test_a_torch_dataset_is_split_by_class_with_its_class_names() -> None:
    stream = as_stream(Pictures(IMAGES, Y), Pictures(IMAGES[:4], Y[:4]), name="zoo")
    assert (stream.name, stream.shape, columns_of(stream)) == ("arrays:zoo", (3, 6, 5), [(0, 1), (2, 3)])
    assert stream.class_names == ("ant", "bee", "cat", "dog")
    assert [len(task.test) for task in stream.tasks] == [2, 2]
    assert stream.tasks[0].train.x.dtype == torch.uint8
    floats = as_stream(TensorDataset(FLOATS, torch.tensor(Y)), tasks=4, class_order="shuffled", seed=1)
    assert (len(floats.tasks), floats.tasks[0].train.x.dtype) == (4, torch.float32)


def test_a_list_of_datasets_or_pairs_is_a_list_of_tasks() -> None:
    halves = [Pictures(IMAGES[:12], [0, 1] * 6), Pictures(IMAGES[12:], [3, 2] * 6)]
    stream = as_stream(halves)
    assert columns_of(stream) == [(0, 1), (2, 3)]
    assert stream.class_names == ("ant", "bee", "cat", "dog")
    assert as_stream(tuple(halves)).fingerprint() == stream.fingerprint()
    unequal = as_stream([(FLOATS[:12], ["a", "b", "c"] * 4), (FLOATS[12:], ["d", "a"] * 6)])
    assert columns_of(unequal) == [(0, 1, 2), (0, 3)]
    assert unequal.class_names == ("a", "b", "c", "d")


def test_every_example_of_a_task_keeps_its_label_and_its_task() -> None:
    x = torch.arange(24.0)[:, None].repeat(1, 2)
    labels = [["b", "a"] * 6, ["c", "a"] * 6]
    stream = as_stream([(x[:12], labels[0]), (x[12:], labels[1])])
    for index, task in enumerate(stream.tasks):
        parts = [task.split(name) for name in ("train", "validation", "test")]
        rows = torch.cat([part.x for part in parts]).flatten(1)[:, 0].int()
        names = [stream.class_names[column] for column in torch.cat([part.y for part in parts]).tolist()]
        assert sorted(rows.tolist()) == list(range(12 * index, 12 * index + 12))
        assert names == [labels[index][row - 12 * index] for row in rows.tolist()]


def test_test_parts_stand_beside_the_tasks_or_in_them() -> None:
    x, y = FLOATS[:4], Y[:4]
    beside = as_stream(PAIRS, [(x, y), (x, y)])
    inside = as_stream([(*pair, x, y) for pair in PAIRS])
    assert beside.fingerprint() == inside.fingerprint()
    assert [len(task.test) for task in beside.tasks] == [4, 4]
    whole = as_stream((FLOATS, Y, x, y))
    assert sum(len(task.test) for task in whole.tasks) == 4


def test_a_hugging_face_dataset_is_read_by_its_columns() -> None:
    usual, named = as_stream(table()), as_stream(table("pixels", "animal"), columns=("pixels", "animal"))
    assert usual.class_names == named.class_names == ("ant", "bee", "cat", "dog")
    assert usual.fingerprint() == named.fingerprint() == as_stream(Pictures(IMAGES, Y)).fingerprint()
    both = as_stream({"train": table(), "test": table()})
    assert sum(len(task.test) for task in both.tasks) == 24
    assert columns_of(as_stream([table(), table()])) == [(0, 1, 2, 3)] * 2


def test_a_real_hugging_face_dataset_is_read_where_it_is_installed() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"x": datasets.Sequence(datasets.Value("float32")), "label": datasets.ClassLabel(4)})
    made = datasets.Dataset.from_dict({"x": FLOATS.flatten(1).tolist(), "label": Y}, features=features)
    assert as_stream(made).shape == (1, 1, 90)


def test_an_avalanche_benchmark_is_a_list_of_tasks() -> None:
    halves = [Pictures(IMAGES[:12], [0, 1] * 6, more=(0,)), Pictures(IMAGES[12:], [2, 3] * 6, more=(1,))]
    stream = as_stream(benchmark(halves, halves))
    assert columns_of(stream) == [(0, 1), (2, 3)]
    assert [len(task.test) for task in stream.tasks] == [12, 12]


def test_the_training_part_of_a_task_is_a_torch_dataset() -> None:
    train = as_stream(PAIRS).tasks[0].train
    assert isinstance(train, Dataset)
    x, y = train[-1]
    assert (x.shape, y) == ((3, 6, 5), int(train.y[-1]))
    assert [len(y) for _, y in DataLoader(train, batch_size=3)] == [3, 1]
    assert len(list(train)) == len(train)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


class Bare(Dataset[Any]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(3)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "name": ("split-digits", {}, r"esacl.open_stream\('split-digits'\)"),
    "array": (IMAGES, {}, r"has no labels. Give a pair \(X, y\)"),
    "loader": (DataLoader(TensorDataset(FLOATS)), {}, "Give what it reads from: loader.dataset"),
    "endless": (Endless(), {}, r"without a length. Give a data set with len\(\)"),
    "bare": (Bare(), {}, r"item 0 of the Bare is a Tensor, not a pair \(x, label\)"),
    "number": (3, {}, "a int is not labelled data. Allowed: a torch Dataset"),
    "empty list": ([], {}, "the list of tasks is empty"),
    "empty dataset": (Pictures(IMAGES, []), {}, "the Pictures is empty"),
    "sizes": (Pictures([IMAGES[0], IMAGES[0][:3]], [0, 1]), {}, r"\[6, 5, 3\] at 0, \[3, 5, 3\] at 1. Resize"),
    "no train": ({"valid": table()}, {}, "the parts valid, but no 'train'"),
    "columns": (table("pixels"), {}, r"has a usual name for the image. Say which are meant: columns="),
    "column": (table(), {"columns": ("image", "kind")}, "has no column 'kind'. Its columns: image, label"),
    "no columns": (PAIRS[0], {"columns": ("a", "b")}, "names columns of a Hugging Face dataset"),
    "test tasks": (PAIRS, {"test": [PAIRS[0]]}, "there are 2 tasks, but test is 1. Give a list"),
    "unlike tasks": ([PAIRS[0], (IMAGES, Y)], {}, r"task 2 holds images of shape \[3, 6, 5\], uint8, but task 1"),
    "bad task": ([PAIRS[0], (FLOATS, Y[:3])], {}, "task 2: x_train has 24 examples, but y_train has 3"),
    "rare class": ([PAIRS[0], (FLOATS[:4], [0, 0, 0, 1])], {}, "task 2: class 1 has 1 training examples"),
    "one class": ([(FLOATS, [7] * 24)], {}, "all tasks have a single class, 7"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(case: str) -> None:
    data, more, message = REFUSED[case]
    with pytest.raises(DataError, match=message) as error:
        as_stream(data, **more)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("more", [{"tasks": 2}, {"classes_per_task": 2}, {"class_order": "shuffled"}, {"blur": 0.1}])
def test_settings_of_a_split_are_refused_for_a_list_of_tasks(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(more))} = .* is of no use: the data are a list of tasks"):
        as_stream(PAIRS, **more)
