from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from esacl.config import StreamConfig
from esacl.errors import ConfigError
from esacl.streams import Stream, available, open_stream
from esacl.streams import digits as digits_module
from esacl.streams.base import Examples, Source
from esacl.streams.choose import choose, cut
from esacl.streams.inputs import ImageInputs
from esacl.streams.split import split, task_count

SPLITS = ("train", "validation", "test")


def numbered(counts: list[int], test: int = 4) -> Source:
    """Examples whose single value is a number of their own; classes alternate as far as they go."""
    rows = sorted((k, label) for label, count in enumerate(counts) for k in range(count))
    y = torch.tensor([label for _, label in rows])
    y_test = torch.arange(len(counts)).repeat(test)
    x = torch.arange(len(y) + len(y_test), dtype=torch.float32).view(-1, 1, 1, 1)
    names = tuple(f"class {k}" for k in range(len(counts)))
    return Source("numbered", names, Examples(x[: len(y)], y), Examples(x[len(y) :], y_test), ImageInputs((0,), (1,)))


def members(stream: Stream) -> dict[tuple[str, str], list[int]]:
    """The numbers of the examples, by split and class name."""
    found: dict[tuple[str, str], list[int]] = {}
    for task in stream.tasks:
        for name in SPLITS:
            part = task.split(name)
            for x, y in zip(part.x.flatten().int().tolist(), part.y.tolist()):
                found.setdefault((name, stream.class_names[y]), []).append(x)
    return found


def test_the_three_splits_are_disjoint_and_cover_everything() -> None:
    source = numbered([10, 13, 2, 30])
    by_split = [
        {
            x
            for (name, _), numbers in members(split(source, StreamConfig(), 0)).items()
            if name == wanted
            for x in numbers
        }
        for wanted in SPLITS
    ]
    assert all(not one & other for one, other in combinations(by_split, 2))
    assert set().union(*by_split) == set(range(55 + 16))
    assert by_split[2] == set(range(55, 71))


def test_splits_do_not_depend_on_the_seed_and_a_shuffled_order_does() -> None:
    source = numbered([12] * 10)
    config = StreamConfig(class_order="shuffled", limit_per_class=8)
    streams = [split(source, config, seed) for seed in range(4)]
    assert len({stream.class_names for stream in streams}) == 4
    assert all(members(stream) == members(streams[0]) for stream in streams)
    assert streams[1].fingerprint() == split(source, config, 1).fingerprint()


def test_a_fixed_order_is_as_listed_whatever_the_seed() -> None:
    source = numbered([5] * 6)
    assert split(source, StreamConfig(), 0).fingerprint() == split(source, StreamConfig(), 99).fingerprint()
    assert split(source, StreamConfig(), 5).class_names == source.class_names


def test_columns_are_positions_in_the_class_order_and_tasks_own_consecutive_ones() -> None:
    source = numbered([6] * 12)
    stream = split(source, StreamConfig(class_order="shuffled", classes_per_task=3), 7)
    assert [task.classes for task in stream.tasks] == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11)]
    assert [task.index for task in stream.tasks] == [0, 1, 2, 3]
    assert stream.stages == stream.tasks
    assert stream.task_of.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    everything = torch.cat([source.train.y, source.test.y])
    for (_, name), numbers in members(stream).items():
        assert {f"class {everything[number]}" for number in numbers} == {name}


def test_a_limit_applies_to_training_before_validation_is_cut_and_to_test() -> None:
    found = members(split(numbered([20] * 4, test=9), StreamConfig(limit_per_class=5, validation=0.2), 0))
    for k in range(4):
        assert [len(found[name, f"class {k}"]) for name in SPLITS] == [4, 1, 5]


def test_a_smaller_limit_takes_some_of_what_a_larger_one_takes() -> None:
    rows = torch.arange(50)
    taken = [set(choose(rows, take, "limit").tolist()) for take in range(1, 52)]
    assert all(small < large for small, large in pairwise(taken[:50]))
    assert taken[49] == taken[50] == set(range(50))


def test_a_choice_is_spread_over_all_rows() -> None:
    taken = choose(torch.arange(10_000), 1000, "limit")
    counts = torch.bincount(taken // 1000, minlength=10)
    assert counts.min() > 60
    assert counts.max() < 140
    assert (taken.diff() > 0).all()


@given(st.integers(2, 200), st.floats(0.01, 0.5))
def test_a_cut_holds_out_its_share_at_least_one_and_never_all(count: int, share: float) -> None:
    kept, held = cut(torch.arange(count), share, "validation")
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(count))
    assert len(kept) >= 1
    assert len(held) == max(1, min(count - 1, round(count * share)))


def test_one_training_example_for_each_class_is_an_error_that_says_how_many() -> None:
    with pytest.raises(ConfigError, match=r"class 'class 0' has 1 training example.*limit_per_class = 1.*at least 2"):
        split(numbered([5, 5]), StreamConfig(limit_per_class=1), 0)


@pytest.mark.parametrize(
    ("classes", "tasks", "each", "default", "expected"),
    [
        (10, None, None, 5, 5),
        (10, 2, None, 5, 2),
        (10, None, 1, 5, 10),
        (10, 1, 10, 5, 1),
        (100, None, 20, 10, 5),
        (10, None, None, None, 5),
        (9, None, None, None, 3),
        (15, None, None, None, 5),
        (7, None, None, None, 7),
        (2, None, None, None, 2),
        (12, None, None, 10, 6),
    ],
)
def test_tasks_follow_from_whichever_number_is_given(
    classes: int, tasks: int | None, each: int | None, default: int | None, expected: int
) -> None:
    assert task_count(classes, tasks, each, default) == expected


@pytest.mark.parametrize(
    ("tasks", "each", "message"),
    [
        (3, None, "tasks = 3 does not divide the 10 classes .* Allowed: 1, 2, 5, 10"),
        (11, None, "tasks = 11 does not divide"),
        (0, None, "tasks = 0 does not divide"),
        (None, 4, "classes_per_task = 4 does not divide .* Allowed: 1, 2, 5, 10"),
        (None, 20, "classes_per_task = 20 does not divide"),
        (5, 3, "stream.tasks = 5 with stream.classes_per_task = 3 makes 15 classes, but the stream has 10"),
        (2, 2, "makes 4 classes, but the stream has 10"),
    ],
)
def test_numbers_that_do_not_divide_the_classes_are_errors_that_say_what_is_allowed(
    tasks: int | None, each: int | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        task_count(10, tasks, each, 5)


def test_images_stay_uint8_and_each_task_keeps_only_its_own() -> None:
    for task in open_stream(StreamConfig(), 0).tasks:
        for name in SPLITS:
            x = task.split(name).x
            assert x.dtype == torch.uint8
            assert x.untyped_storage().nbytes() == x.numel()


def test_digits_have_a_fixed_stratified_test_split_and_all_their_images() -> None:
    source = digits_module.read()
    assert len(source.train) + len(source.test) == 1797
    counts = torch.bincount(source.test.y) / (torch.bincount(source.train.y) + torch.bincount(source.test.y))
    assert (counts - 0.2).abs().max() < 0.005
    assert source.train.x.shape[1:] == (1, 8, 8)
    assert int(source.train.x.max()) == 240
    normalised = source.inputs.plain(source.train.x)
    assert abs(float(normalised.mean())) < 1e-3
    assert abs(float(normalised.std()) - 1) < 1e-3


def test_an_unknown_stream_suggests_a_known_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown stream 'split-cifar-10'\. Did you mean 'split-cifar10'\?"):
        open_stream(StreamConfig("split-cifar-10"), 0)
    with pytest.raises(ConfigError, match="Allowed: folder:PATH, permuted-digits, rotated-digits, split-cifar10"):
        open_stream(StreamConfig("zebra"), 0)


def test_available_streams_say_what_must_be_downloaded() -> None:
    infos = {info.name: info for info in available()}
    digits = ["split-digits", "rotated-digits", "permuted-digits"]
    assert list(infos) == [*digits, "split-cifar10", "split-cifar100", "split-tinyimagenet", "folder:PATH"]
    assert infos["split-digits"].download is None
    assert infos["split-cifar10"].download == "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    assert infos["split-tinyimagenet"].size == 248_100_043
    stream = open_stream(StreamConfig("split-digits"), 0)
    described = infos["split-digits"]
    assert (described.classes, described.tasks, described.image) == (10, len(stream.tasks), stream.shape)
