"""The same promises on the real archives, where ESACL_DATA names a folder that holds them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from esacl.config import StreamConfig
from esacl.streams import available, open_stream
from esacl.streams.archive import open_archive
from esacl.streams.base import Source
from esacl.streams.images import measured_inputs
from esacl.streams.locate import find, read_official
from esacl.streams.official import OFFICIAL, official
from esacl.streams.split import split

Read = Callable[[str], Source]


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_real_archive_has_every_class_in_both_splits(name: str, real_source: Read) -> None:
    source, info = real_source(name), next(info for info in available() if info.name == f"split-{name}")
    assert len(source.class_names) == info.classes
    assert source.train.x.shape[1:] == info.image
    for examples in (source.train, source.test):
        counts = torch.bincount(examples.y, minlength=len(source.class_names))
        assert counts.min() == counts.max() > 0


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_constants_normalise_the_real_images(name: str, real_source: Read) -> None:
    source = real_source(name)
    measured = measured_inputs(source.train.x)
    assert source.inputs.mean == pytest.approx(measured.mean, abs=0.005)
    assert source.inputs.std == pytest.approx(measured.std, abs=0.005)
    assert source.inputs.flip
    assert source.inputs.padding == source.train.x.shape[-1] // 8


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_real_archive_unpacked_gives_identical_tensors(
    name: str, real_source: Read, real_folder: Path, tmp_path: Path
) -> None:
    source, data = real_source(name), official(name)
    packed = find(data, real_folder)
    assert packed is not None
    (tmp_path / data.folder).mkdir()
    with open_archive(packed, data.folder) as archive:
        for file, contents in archive.read(archive.names()):
            (tmp_path / data.folder / file).write_bytes(contents)
    unpacked = read_official(data, tmp_path)
    assert unpacked.train.x.equal(source.train.x)
    assert unpacked.test.y.equal(source.test.y)


def test_known_images_have_their_known_classes(real_source: Read) -> None:
    source = real_source("cifar10")
    assert source.class_names[:2] == ("airplane", "automobile")
    blueness = [
        (source.train.x[source.train.y == k].float().mean(dim=(0, 2, 3)) @ torch.tensor([-1.0, 0, 1]))
        for k in (0, 8, 6)
    ]
    assert min(blueness[0], blueness[1]) > 0 > blueness[2]  # aeroplanes and ships are before blue, frogs are not


def test_real_tiny_imagenet_words_and_grey_images(real_source: Read) -> None:
    source = real_source("tinyimagenet")
    assert "goldfish" in source.class_names
    images = torch.cat([source.train.x, source.test.x])
    assert int((images[:, 0] == images[:, 1]).flatten(1).all(dim=1).sum()) > 0


@pytest.mark.parametrize("name", OFFICIAL)
def test_splits_of_real_data_are_the_same_for_every_seed(name: str, real_source: Read) -> None:
    source, held = real_source(name), []
    for seed in (0, 1):
        stream = split(source, StreamConfig(class_order="shuffled", limit_per_class=10), seed)
        held.append({x.numpy().tobytes() for task in stream.tasks for x in task.validation.x})
        trained = {x.numpy().tobytes() for task in stream.tasks for x in task.train.x}
        assert len(trained) > 8 * len(held[-1])
    assert held[0] == held[1]


def test_a_limited_real_stream_decodes_little_and_equals_the_full_read(real_source: Read, real_folder: Path) -> None:
    config = StreamConfig("split-tinyimagenet", limit_per_class=3, data_dir=str(real_folder))
    quick = open_stream(config, 0)
    slow = split(real_source("tinyimagenet"), config, 0, default_tasks=10)
    assert quick.fingerprint() == slow.fingerprint()
