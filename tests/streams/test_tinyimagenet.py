from pathlib import Path

import numpy as np
import pytest

from esacl.config import StreamConfig
from esacl.errors import DataError
from esacl.streams import open_stream
from esacl.streams.images import decode_rgb
from esacl.streams.locate import read_official
from esacl.streams.official import official
from tests.streams.layouts import jpeg, tiny_files, write_folder, write_zip

TINY = official("tinyimagenet")


def test_zip_and_unpacked_folder_give_identical_tensors(tmp_path: Path) -> None:
    write_folder(tmp_path / "1", TINY.folder, tiny_files())
    (tmp_path / "2").mkdir()
    write_zip(tmp_path / "2" / TINY.archive, TINY.folder, tiny_files())
    one, other = (read_official(TINY, tmp_path / place) for place in "12")
    assert one.class_names == other.class_names
    for a, b in ((one.train, other.train), (one.test, other.test)):
        assert a.x.equal(b.x)
        assert a.y.equal(b.y)


def test_classes_are_ordered_as_in_wnids_and_named_by_words(tmp_path: Path) -> None:
    files = tiny_files()
    write_folder(tmp_path, TINY.folder, files)
    source = read_official(TINY, tmp_path)
    wnids = files["wnids.txt"].decode().split()
    assert source.class_names == ("goldfish", *wnids[1:])
    expected = decode_rgb(files[f"train/{wnids[3]}/images/{wnids[3]}_0.JPEG"]).transpose(2, 0, 1)
    assert (source.train.x[source.train.y == 3][0].numpy() == expected).all()
    assert source.test.y.tolist() == list(range(10))  # val_0 ... val_9, though annotated backwards
    assert (source.test.x[4].numpy() == decode_rgb(files["val/images/val_4.JPEG"]).transpose(2, 0, 1)).all()


def test_grey_images_become_rgb(tmp_path: Path) -> None:
    write_folder(tmp_path, TINY.folder, tiny_files())
    train = read_official(TINY, tmp_path).train
    grey = (train.x[:, 0] == train.x[:, 1]).flatten(1).all(dim=1)
    assert int(grey.sum()) == 10
    assert train.x.shape == (40, 3, 64, 64)


def test_a_limit_decodes_only_what_the_stream_takes(tmp_path: Path) -> None:
    write_folder(tmp_path, TINY.folder, tiny_files())
    seen: list[tuple[int, int]] = []
    config = StreamConfig("split-tinyimagenet", limit_per_class=2, data_dir=str(tmp_path))
    limited = open_stream(config, 0, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (30, 30)
    everything = read_official(TINY, tmp_path)
    kept = {x.numpy().tobytes() for task in limited.tasks for part in (task.train, task.validation) for x in part.x}
    assert len(kept) == 20
    assert kept < {x.numpy().tobytes() for x in everything.train.x}


DAMAGE: dict[str, tuple[dict[str, bytes], str]] = {
    "truncated JPEG": ({"val/images/val_3.JPEG": jpeg(1)[:300]}, "image 'val/images/val_3.JPEG' in .* is damaged: "),
    "not an image": ({"val/images/val_3.JPEG": b"hello"}, "is damaged: not a readable image"),
    "empty image": ({"val/images/val_3.JPEG": b""}, "is damaged: not a readable image"),
    "other size": ({"val/images/val_3.JPEG": jpeg(1, side=32)}, "is 32 × 32 pixels, not 64 × 64"),
    "unknown class": ({"val/val_annotations.txt": b"val_0.JPEG\tn99\t0"}, "line 1 .* class 'n99' is not in wnids.txt"),
    "absent image": ({"val/val_annotations.txt": b"../x.JPEG\tn00000000\t0"}, "there is no 'val/images/../x.JPEG'"),
    "zeros": ({"val/val_annotations.txt": bytes(10_000)}, r"there is no 'val/images/(\\x00){89}'"),
    "class without test image": ({"val/val_annotations.txt": b"val_0.JPEG\tn00000000"}, "no test image of 'n00000007'"),
    "class listed twice": ({"wnids.txt": b"n00000000\nn00000000"}, "does not list different classes"),
    "no class": ({"wnids.txt": b""}, "does not list different classes"),
    "class without training image": ({"wnids.txt": b"n00000000\nn77"}, "is wrong: class|no training image of 'n77'"),
}


@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.parametrize("form", ["zip", "folder"])
def test_damage_gives_one_clear_line_that_says_what_to_do(tmp_path: Path, case: str, form: str) -> None:
    changes, message = DAMAGE[case]
    files = {**tiny_files(), **changes}
    if form == "zip":
        write_zip(tmp_path / TINY.archive, TINY.folder, files)
    else:
        write_folder(tmp_path, TINY.folder, files)
    with pytest.raises(DataError, match=message) as error:
        read_official(TINY, tmp_path)
    assert "esacl data get tinyimagenet" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("absent", ["wnids.txt", "val/val_annotations.txt"])
def test_a_missing_list_is_named(tmp_path: Path, absent: str) -> None:
    files = tiny_files()
    del files[absent]
    write_zip(tmp_path / TINY.archive, TINY.folder, files)
    with pytest.raises(DataError, match=f"it has no tiny-imagenet-200/{absent}"):
        read_official(TINY, tmp_path)


def test_without_words_classes_are_named_by_their_identifiers(tmp_path: Path) -> None:
    files = tiny_files()
    del files["words.txt"]
    write_zip(tmp_path / TINY.archive, TINY.folder, files)
    assert read_official(TINY, tmp_path).class_names == tuple(files["wnids.txt"].decode().split())


def test_a_truncated_zip_gives_one_clear_line(tmp_path: Path) -> None:
    path = write_zip(tmp_path / TINY.archive, TINY.folder, tiny_files())
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(DataError, match=r"damaged or incomplete: File is not a zip file\. Delete that file"):
        read_official(TINY, tmp_path)


def test_images_are_stored_once_as_uint8(tmp_path: Path) -> None:
    write_folder(tmp_path, TINY.folder, tiny_files())
    source = read_official(TINY, tmp_path)
    assert source.train.x.numpy().dtype == np.uint8
    assert source.train.x.untyped_storage().data_ptr() == source.test.x.untyped_storage().data_ptr()
