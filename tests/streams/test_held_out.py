"""What is used of each class, and what of it is held out: nothing, where `validation` is 0."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import esacl
from esacl.config import StreamConfig
from esacl.errors import ConfigError, DataError
from esacl.options import helps
from esacl.runner import start
from esacl.streams import open_stream
from esacl.streams.choose import Limit, cut
from esacl.streams.split import split
from esacl.training.events import TaskDone
from tests.streams.layouts import tiny_files, write_folder
from tests.streams.test_split import SPLITS, members, numbered
from tests.streams.test_tinyimagenet import TINY

QUICK = {"limit_per_class": 12, "validation": 0}


def settings(method: str = "er", split: str = "test", **stream: Any) -> esacl.Config:
    """A run of seconds on digits."""
    return esacl.Config.from_mapping(
        {"method": method, "stream": {**QUICK, **stream}, "train": {"epochs": 1, "split": split}}
    )


def test_validation_zero_holds_nothing_out() -> None:
    source = numbered([10, 13, 2, 30])
    found = members(split(source, StreamConfig(validation=0), 0))
    assert not any(name == "validation" for name, _ in found)
    assert [len(found["train", f"class {k}"]) for k in range(4)] == [10, 13, 2, 30]
    kept, held = cut(torch.arange(5), 0, "validation")
    assert (kept.tolist(), held.tolist()) == ([0, 1, 2, 3, 4], [])


def test_one_example_a_class_is_enough_where_none_is_held_out() -> None:
    found = members(split(numbered([5, 5]), StreamConfig(limit_per_class=1, validation=0), 0))
    assert [len(found["train", f"class {k}"]) for k in range(2)] == [1, 1]
    with pytest.raises(ConfigError, match=r"at least 2\. Or use stream\.validation = 0"):
        split(numbered([5, 5]), StreamConfig(limit_per_class=1), 0)


def test_first_takes_the_first_of_each_class_in_file_order() -> None:
    source = numbered([20, 20, 3, 20], test=9)
    config = StreamConfig(limit_per_class=5, limit_order="first", validation=0)
    found = members(split(source, config, 0))
    for k in range(4):
        for name, examples in (("train", source.train), ("test", source.test)):
            assert found[name, f"class {k}"] == examples.x[examples.y == k].flatten().int().tolist()[:5]


def test_of_the_first_examples_a_share_is_held_out_as_of_others() -> None:
    found = members(split(numbered([20] * 4), StreamConfig(limit_per_class=10, limit_order="first"), 0))
    assert [len(found[name, "class 1"]) for name in SPLITS[:2]] == [9, 1]
    assert sorted(found["train", "class 0"] + found["validation", "class 0"]) == list(range(0, 40, 4))


def test_a_limit_scatters_unless_told_otherwise() -> None:
    rows = torch.arange(1000)
    assert Limit(100).of(rows).max() > 900
    assert Limit(100, "first").of(rows).tolist() == list(range(100))
    assert Limit().of(rows) is rows


def test_of_tiny_imagenet_only_the_first_images_are_decoded(tmp_path: Path) -> None:
    write_folder(tmp_path, TINY.folder, tiny_files())
    seen: list[tuple[int, int]] = []
    places = {"data_dir": str(tmp_path), "limit_order": "first", "validation": 0}
    limited = open_stream(
        StreamConfig("split-tinyimagenet", limit_per_class=2, **places),
        0,
        lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (30, 30)
    whole = open_stream(StreamConfig("split-tinyimagenet", **places), 0)
    for few, every in zip(limited.tasks, whole.tasks):
        for column in few.classes:
            assert few.train.x[few.train.y == column].equal(every.train.x[every.train.y == column][:2])


def test_arrays_of_two_examples_a_class_are_enough_without_validation() -> None:
    x, y = np.arange(16, dtype=np.float32).reshape(8, 2), [0, 1, 2, 3] * 2
    stream = esacl.from_arrays(x, y, validation=0, limit_order="first")
    assert [(len(task.train), len(task.validation), len(task.test)) for task in stream.tasks] == [(2, 0, 2)] * 2
    with pytest.raises(DataError, match="at least 3 are needed"):
        esacl.from_arrays(x, y)


def test_a_run_without_validation_trains_and_resumes_to_the_same(tmp_path: Path) -> None:
    whole = esacl.run(settings(), tmp_path / "whole")
    with start(settings(), tmp_path / "half") as half:
        next(event for event in half.events() if isinstance(event, TaskDone))
    assert esacl.resume(tmp_path / "half").matrix == whole.matrix
    assert "limit_order" in (tmp_path / "whole" / "config.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"split": "validation"},
            r"train\.split = 'validation' .* stream\.validation = 0 .*stream\.validation = 0\.1.*train\.split = 'test'",
        ),
        ({"method": "nispa"}, r"nispa watches validation accuracy.* stream\.validation = 0 .*another method"),
    ],
)
def test_what_needs_validation_examples_is_refused_without(changes: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        esacl.run(settings(name="split-cifar10", data_dir=str(tmp_path), **changes), tmp_path / "run")
    held = {**changes, "validation": 0.1}
    arrays = esacl.from_arrays(np.zeros((40, 2), np.float32), [0, 1, 2, 3] * 10, validation=0)
    with pytest.raises(ConfigError, match=message):
        esacl.run(settings(**held), tmp_path / "run", stream=arrays)
    assert not (tmp_path / "run").exists()


def test_the_help_of_a_limit_says_that_some_of_it_is_held_out() -> None:
    told = helps(StreamConfig)
    assert "a tenth of the training images is then held out" in told["limit_per_class"].help
    assert told["validation"].default == 0.1


def test_joint_training_needs_no_validation_examples(tmp_path: Path) -> None:
    assert esacl.run(settings("mtl"), tmp_path / "run").task_il > 0.5
