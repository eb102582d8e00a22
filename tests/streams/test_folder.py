import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from esacl.config import StreamConfig
from esacl.errors import ConfigError, DataError
from esacl.streams import Stream, open_stream
from esacl.streams import listing as listing_module

RED = (255, 0, 0)


def fill(root: Path, counts: dict[str, int], size: tuple[int, int] = (10, 10)) -> Path:
    """Sub-folders of plain images, a different colour for each."""
    for label, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True, exist_ok=True)
        for k in range(count):
            Image.new("RGB", size, (20 * label, 2 * k, 7)).save(root / name / f"{k}.png")
    return root


def opened(path: Path, **options: object) -> Stream:
    return open_stream(StreamConfig(f"folder:{path}", image_size=8, **options), 0)  # type: ignore[arg-type]


def test_each_sub_folder_is_a_class(tmp_path: Path) -> None:
    stream = opened(fill(tmp_path, {"emu": 10, "cat": 10, "ünïcode ☂": 10, "a.b 'c'": 10}))
    assert stream.class_names == ("a.b 'c'", "cat", "emu", "ünïcode ☂")
    assert [task.classes for task in stream.tasks] == [(0, 1), (2, 3)]
    assert stream.shape == (3, 8, 8)
    assert [len(stream.tasks[0].split(name)) for name in ("train", "validation", "test")] == [14, 2, 4]
    assert stream.name == f"folder:{tmp_path.name}"


def test_a_test_folder_is_the_test_split_and_wins_over_val(tmp_path: Path) -> None:
    fill(tmp_path / "train", {"a": 5, "b": 5})
    fill(tmp_path / "val", {"a": 1, "b": 1})
    assert sum(len(task.test) for task in opened(tmp_path).tasks) == 2
    fill(tmp_path / "test", {"a": 3, "b": 3})
    stream = opened(tmp_path)
    assert sum(len(task.test) for task in stream.tasks) == 6
    assert sum(len(task.train) + len(task.validation) for task in stream.tasks) == 10


def test_a_lone_train_folder_holds_the_classes(tmp_path: Path) -> None:
    assert opened(fill(tmp_path / "train", {"a": 5, "b": 5}).parent).class_names == ("a", "b")


def image_of(tmp_path: Path, name: str, image: Image.Image, **options: object) -> torch.Tensor:
    """The image as it is stored, read from a class that also has others."""
    fill(tmp_path / "train", {"a": 2, "b": 2})
    fill(tmp_path / "test", {"b": 1})
    (tmp_path / "test" / "a").mkdir()
    image.save(tmp_path / "test" / "a" / name, **options)
    return opened(tmp_path).tasks[0].test.x[0]


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "CMYK", "1", "I;16", "YCbCr"])
def test_every_colour_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((10, 10), 0x8080, np.uint16))
        expected = (128, 128, 128)
    else:
        image = Image.new("RGB", (10, 10), (255, 255, 255) if mode == "1" else RED).convert(mode)
        expected = tuple(image.convert("RGB").getpixel((0, 0)))
    stored = image_of(tmp_path, "x.tiff", image)
    assert stored.shape == (3, 8, 8)
    assert (stored.float() - torch.tensor(expected).view(3, 1, 1)).abs().max() <= 1


def test_transparent_pixels_become_white(tmp_path: Path) -> None:
    assert image_of(tmp_path, "x.png", Image.new("RGBA", (10, 10), (9, 9, 9, 0))).unique().tolist() == [255]


def test_a_palette_with_transparency_is_read(tmp_path: Path) -> None:
    palette = Image.new("P", (10, 10), 0)
    palette.putpalette([1, 2, 3] * 256)
    assert image_of(tmp_path, "x.gif", palette, transparency=0).unique().tolist() == [255]


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    image = Image.new("RGB", (64, 64))
    image.paste(RED, (0, 0, 64, 32))  # red on top
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by 90° clockwise: red on the right
    stored = image_of(tmp_path, "x.jpg", image, exif=exif, quality=95)
    assert stored[0, :, -1].min() > 200
    assert stored[0, :, 0].max() < 50


def test_a_large_jpeg_is_resized_to_its_average_colours(tmp_path: Path) -> None:
    image = Image.new("RGB", (1600, 1200), RED)
    stored = image_of(tmp_path, "x.JPEG", image, quality=95)
    assert stored[0].min() > 245
    assert stored[1:].max() < 10


def test_broken_images_are_counted_and_reported_once(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 5, "b": 5})
    (tmp_path / "a" / "broken.jpg").write_bytes(b"no image")
    whole = (tmp_path / "b" / "0.png").read_bytes()
    (tmp_path / "b" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b" / "empty.png").write_bytes(b"")
    with pytest.warns(
        UserWarning, match=r"3 of the 13 image files in .* such as .*broken.jpg.*3 were left out"
    ) as caught:
        stream = opened(tmp_path)
    assert len(caught) == 1
    assert sum(len(task.split(name)) for task in stream.tasks for name in ("train", "validation", "test")) == 10


def test_other_files_and_hidden_ones_are_ignored(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 5, "b": 5})
    (tmp_path / "a" / "notes.txt").write_text("x")
    (tmp_path / "a" / "._0.png").write_text("x")
    (tmp_path / ".cache").mkdir()
    (tmp_path / "readme.md").write_text("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened(tmp_path).class_names == ("a", "b")


def test_images_in_nested_folders_belong_to_the_class(tmp_path: Path) -> None:
    fill(tmp_path, {"a/2023": 3, "a/2024": 3, "b": 3})
    stream = opened(tmp_path)
    assert stream.class_names == ("a", "b")
    assert sum(len(stream.tasks[0].split(name)) for name in ("train", "validation", "test")) == 6


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder '.*nowhere'"):
        opened(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="names no folder"):
        open_stream(StreamConfig("folder:"), 0)


@pytest.mark.parametrize(("counts", "found"), [({}, "no sub-folder"), ({"only": 5}, "only the sub-folder 'only'")])
def test_fewer_than_two_classes_is_an_error(tmp_path: Path, counts: dict[str, int], found: str) -> None:
    fill(tmp_path, counts)
    with pytest.raises(DataError, match=f"holds {found}, but at least 2 classes are needed"):
        opened(tmp_path)


def test_a_class_with_too_few_readable_images_is_named_with_their_number(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 5, "b": 2, "c": 5})
    (tmp_path / "b" / "broken.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"class 'b' .* has 2 readable images \(1 files could not.*at least 3"):
        opened(tmp_path)


def test_a_class_of_only_broken_images_is_an_error(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"class 'a' .* has 0 readable images"):
        opened(tmp_path)


def test_train_and_test_must_hold_the_same_classes(tmp_path: Path) -> None:
    fill(tmp_path / "train", {"a": 5, "b": 5})
    fill(tmp_path / "test", {"a": 1, "c": 1})
    with pytest.raises(DataError, match="do not hold the same classes: 'b'"):
        opened(tmp_path)


def test_the_split_does_not_depend_on_the_order_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened(fill(tmp_path, {"a": 9, "b": 9}))
    walk = listing_module.os.walk
    monkeypatch.setattr(listing_module.os, "walk", lambda path: [(a, b, c[::-1]) for a, b, c in walk(path)][::-1])
    assert opened(tmp_path).fingerprint() == before.fingerprint()


def test_augmentation_can_be_switched_off(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 5, "b": 5})
    assert opened(tmp_path).inputs.augments
    assert not opened(tmp_path, augment=False).inputs.augments
