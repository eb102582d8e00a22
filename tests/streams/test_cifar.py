import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from esacl.config import StreamConfig
from esacl.errors import DataError
from esacl.streams import open_stream
from esacl.streams.base import Source
from esacl.streams.locate import read_official
from esacl.streams.official import official
from tests.streams.layouts import (
    CIFAR10_NAMES,
    cifar10_files,
    cifar100_files,
    pixels,
    python2_pickle,
    write_folder,
    write_tar,
)

CIFAR10, CIFAR100 = official("cifar10"), official("cifar100")


def same_source(one: Source, other: Source) -> bool:
    pairs = ((one.train, other.train), (one.test, other.test))
    return one.class_names == other.class_names and all(a.x.equal(b.x) and a.y.equal(b.y) for a, b in pairs)


@pytest.mark.parametrize(("name", "files"), [("cifar10", cifar10_files()), ("cifar100", cifar100_files())])
def test_archive_plain_tar_and_unpacked_folder_give_identical_tensors(
    tmp_path: Path, name: str, files: dict[str, bytes]
) -> None:
    data = official(name)
    write_folder(tmp_path / "1", data.folder, files)
    for place in ("2", "3"):
        (tmp_path / place).mkdir()
    write_tar(tmp_path / "2" / data.archive, data.folder, files)
    write_tar(tmp_path / "3" / data.archive.removesuffix(".gz"), data.folder, files)
    unpacked, gzipped, plain = (read_official(data, tmp_path / place) for place in "123")
    assert same_source(unpacked, gzipped)
    assert same_source(unpacked, plain)


def test_images_labels_and_names_are_those_of_the_files(tmp_path: Path) -> None:
    write_folder(tmp_path, CIFAR10.folder, cifar10_files())
    source = read_official(CIFAR10, tmp_path)
    assert source.class_names == CIFAR10_NAMES
    assert source.train.x.shape == (60, 3, 32, 32)
    assert source.train.x.dtype == torch.uint8
    expected = np.concatenate([pixels(12, batch) for batch in range(1, 6)]).reshape(-1, 3, 32, 32)
    assert (source.train.x.numpy() == expected).all()
    assert source.train.y[:12].tolist() == [(k % 10 + 2) % 10 for k in range(12)]
    assert source.test.y.tolist() == [k % 10 for k in range(20)]


def test_the_unpacked_folder_is_preferred_to_the_archive(tmp_path: Path) -> None:
    write_folder(tmp_path, CIFAR10.folder, cifar10_files())
    (tmp_path / CIFAR10.archive).write_bytes(b"not an archive")
    assert len(read_official(CIFAR10, tmp_path).train) == 60


def test_cifar_100_uses_the_fine_labels(tmp_path: Path) -> None:
    write_folder(tmp_path, CIFAR100.folder, cifar100_files())
    stream = open_stream(StreamConfig("split-cifar100", data_dir=str(tmp_path)), 0)
    assert len(stream.tasks) == 10
    assert stream.tasks[3].test.y.tolist() == list(range(30, 40))


WRONG = {
    "no data": ({"labels": [0]}, "its entry 'data' is not"),
    "data of text": ({"data": "x", "labels": [0]}, "its entry 'data' is not"),
    "too few columns": ({"data": pixels(2, 0)[:, :3000], "labels": [0, 1]}, "3072 columns"),
    "flat data": ({"data": pixels(1, 0)[0], "labels": [0]}, "3072 columns"),
    "no labels": ({"data": pixels(2, 0)}, "one entry in 'labels' for each of its 2"),
    "too few labels": ({"data": pixels(2, 0), "labels": [0]}, "one entry in 'labels' for each of its 2"),
    "label out of range": ({"data": pixels(2, 0), "labels": [0, 10]}, "from 0 to 9"),
    "negative label": ({"data": pixels(2, 0), "labels": [0, -1]}, "from 0 to 9"),
    "label of text": ({"data": pixels(2, 0), "labels": [0, "cat"]}, "from 0 to 9"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_contents_give_one_clear_line_with_file_and_remedy(tmp_path: Path, case: str) -> None:
    contents, message = WRONG[case]
    write_folder(tmp_path, CIFAR10.folder, {**cifar10_files(), "data_batch_3": python2_pickle(contents)})
    with pytest.raises(DataError, match=message) as error:
        read_official(CIFAR10, tmp_path)
    text = str(error.value)
    assert "'data_batch_3'" in text
    assert "esacl data get cifar10 --data-dir" in text
    assert "\n" not in text


def test_a_batch_of_floats_is_refused(tmp_path: Path) -> None:
    batch = pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [0]}, 2)
    write_folder(tmp_path, CIFAR10.folder, {**cifar10_files(), "test_batch": batch})
    with pytest.raises(DataError, match="an array of type 'f8' was refused"):
        read_official(CIFAR10, tmp_path)


def test_a_missing_class_and_a_missing_file_are_named(tmp_path: Path) -> None:
    files = cifar10_files()
    files["test_batch"] = python2_pickle({"data": pixels(9, 0), "labels": [0, 1, 2, 4, 5, 6, 7, 8, 9]})
    folder = write_folder(tmp_path, CIFAR10.folder, files)
    with pytest.raises(DataError, match="no test image of class 'cat'"):
        read_official(CIFAR10, tmp_path)
    (folder / "data_batch_2").unlink()
    with pytest.raises(DataError, match=r"it has no cifar-10-batches-py/data_batch_2. Delete that folder and run"):
        read_official(CIFAR10, tmp_path)


def test_class_names_must_be_complete(tmp_path: Path) -> None:
    meta = python2_pickle({"label_names": ["cat", "dog"]})
    write_folder(tmp_path, CIFAR10.folder, {**cifar10_files(), "batches.meta": meta})
    with pytest.raises(DataError, match="no list 'label_names' of 10 class names"):
        read_official(CIFAR10, tmp_path)


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_truncated_archive_gives_one_clear_line_that_says_what_to_do(tmp_path: Path, keep: float) -> None:
    path = write_tar(tmp_path / CIFAR10.archive, CIFAR10.folder, cifar10_files())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(DataError, match="damaged or incomplete") as error:
        read_official(CIFAR10, tmp_path)
    text = str(error.value)
    assert "cifar-10-python.tar.gz" in text
    assert text.endswith(f"Delete that file and run `esacl data get cifar10 --data-dir {tmp_path}`.")


def test_missing_data_names_file_place_address_and_command(tmp_path: Path) -> None:
    place = tmp_path / "my data"
    with pytest.raises(DataError) as error:
        open_stream(StreamConfig("split-cifar10", data_dir=str(place)), 0)
    text = str(error.value)
    for part in (
        CIFAR10.archive,
        str(place),
        CIFAR10.url,
        f"esacl data get cifar10 --data-dir '{place}'",
        "ESACL_DATA",
    ):
        assert part in text


def test_the_environment_variable_names_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path, CIFAR10.folder, cifar10_files())
    monkeypatch.setenv("ESACL_DATA", str(tmp_path))
    assert open_stream(StreamConfig("split-cifar10"), 0).shape == (3, 32, 32)


def test_reading_holds_at_most_twice_the_images(tmp_path: Path) -> None:
    batch = {"data": pixels(2000, 0), "labels": [k % 10 for k in range(2000)]}
    files = {**cifar10_files(), **{f"data_batch_{k}": python2_pickle(batch) for k in range(1, 6)}}
    write_tar(tmp_path / CIFAR10.archive, CIFAR10.folder, files)
    del files, batch
    tracemalloc.start()
    read_official(CIFAR10, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 10_000 * 3072
