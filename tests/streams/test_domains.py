"""Streams whose tasks share classes: digits in new looks, and boundaries that are blurred."""

import pytest
import torch

from esacl.config import StreamConfig
from esacl.errors import ConfigError
from esacl.rng import generator
from esacl.streams import open_stream
from esacl.streams.domains import rotate
from tests.reference.rotation import rotated_pixel_by_pixel

TRANSFORMS = pytest.mark.parametrize("name", ["rotated-digits", "permuted-digits"])


@TRANSFORMS
def test_every_task_has_all_classes_and_the_same_examples_in_another_look(name):
    stream = open_stream(name)
    assert stream.same_classes
    assert [task.classes for task in stream.tasks] == [tuple(range(10))] * 5
    upright = open_stream(StreamConfig("split-digits", tasks=1)).tasks[0]
    for split in ("train", "validation", "test"):
        assert torch.equal(stream.tasks[0].split(split).x, upright.split(split).x)
        looks = [task.split(split) for task in stream.tasks]
        assert all(torch.equal(look.y, looks[0].y) for look in looks)
        assert len({look.x.numpy().tobytes() for look in looks}) == 5


@TRANSFORMS
def test_looks_do_not_depend_on_the_seed(name):
    assert open_stream(name, 0).fingerprint() == open_stream(name, 1).fingerprint()


def test_a_permutation_keeps_the_pixels():
    first, *others = (task.train.x.flatten(1) for task in open_stream("permuted-digits").tasks)
    for other in others:
        assert torch.equal(first.sort(1).values, other.sort(1).values)


@pytest.mark.parametrize("degrees", [0, 36, 90, 144, 180, -17.5])
@pytest.mark.parametrize("size", [(8, 8), (5, 7)])
def test_a_rotation_agrees_with_one_pixel_by_pixel(degrees, size):
    images = torch.randint(0, 256, (2, 3, *size), generator=generator(0, "images")).to(torch.uint8)
    assert torch.equal(rotate(images, degrees), rotated_pixel_by_pixel(images, degrees))


def test_quarter_turns_are_anticlockwise_and_exact():
    images = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    assert torch.equal(rotate(images, 90), images.rot90(1, (2, 3)))
    assert torch.equal(rotate(images, 0), images)


def test_another_number_of_looks_can_be_asked_for_and_other_splits_are_refused():
    assert len(open_stream(StreamConfig("rotated-digits", tasks=3, classes_per_task=10)).tasks) == 3
    with pytest.raises(ConfigError, match="classes_per_task = 2 is not allowed: every task of 'rotated-digits' has"):
        open_stream(StreamConfig("rotated-digits", classes_per_task=2))
    with pytest.raises(ConfigError, match=r"stream.blur = 0.1 is of no use: every task of 'permuted-digits'"):
        open_stream(StreamConfig("permuted-digits", blur=0.1))


def test_a_blurred_boundary_moves_a_share_of_each_class_to_the_other_tasks():
    sharp, blurred = open_stream("split-digits"), open_stream(StreamConfig(blur=0.2))
    for index, (before, after, stage) in enumerate(zip(sharp.tasks, blurred.tasks, blurred.stages)):
        assert after.classes == before.classes
        assert torch.equal(after.test.x, before.test.x)
        assert torch.equal(after.validation.x, before.validation.x)
        assert stage.train is after.train
        assert stage.classes == tuple(range(10)), "a task is trained with every class that occurs"
        for column in before.classes:
            count = int((before.train.y == column).sum())
            left = [int((stage.train.y == column).sum()) for stage in blurred.stages]
            assert left[index] == count - round(0.2 * count)
            assert sum(left) == count
            others = left[:index] + left[index + 1 :]
            assert max(others) - min(others) <= 1
    assert sharp.fingerprint() != blurred.fingerprint()


def test_a_blurred_stream_needs_other_tasks():
    with pytest.raises(ConfigError, match=r"stream.blur = 0.1 spreads classes over other tasks, but there is one"):
        open_stream(StreamConfig(tasks=1, blur=0.1))


def test_a_stream_is_opened_by_its_name():
    assert open_stream("split-digits").fingerprint() == open_stream(StreamConfig("split-digits"), 0).fingerprint()
    with pytest.raises(ConfigError, match=r"opened by name, such as 'split-digits', but a list was given"):
        open_stream([])


def test_streams_tasks_and_examples_have_a_short_repr():
    stream = open_stream("rotated-digits")
    assert repr(stream) == "Stream(rotated-digits: 5 tasks, 10 classes, the same in every task, 1×8×8)"
    assert repr(stream.tasks[1]) == "Task(1: classes 0 1 2 3 4 5 6 7 8 9; 1295 train, 143 validation, 359 test)"
    assert repr(stream.tasks[1].test) == "Examples(359 of 1×8×8, uint8)"
