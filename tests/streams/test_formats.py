import sys
from pathlib import Path

import pytest
from PIL import Image, features

from esacl.config import StreamConfig
from esacl.errors import DataError
from esacl.streams import formats, open_stream
from esacl.streams.images import decode_resized
from esacl.streams.listing import LeftOut, image_files, listed

FORMATS = ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP", "PPM", *(["AVIF"] if features.check("avif") else [])]
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)


def written(path: Path, kind: str, size: tuple[int, int] = (24, 16)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (200, 30, 60)).save(path, kind)
    return path


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["x.jpg", "x.data", "x"])
def test_images_are_known_by_content_not_by_name(tmp_path: Path, kind: str, name: str) -> None:
    path = written(tmp_path / name, kind)
    data = path.read_bytes()
    assert formats.kind(data[: formats.HEAD]) == {"PPM": "PNM"}.get(kind, kind)
    assert formats.looks_whole(data[: formats.HEAD], data[-formats.TAIL :], len(data))
    assert image_files(tmp_path) == [path]
    assert abs(int(decode_resized(data, (8, 8), "crop")[0, 0, 0]) - 200) < 10


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "WebP"])
def test_a_file_that_was_cut_off_does_not_look_whole(tmp_path: Path, kind: str) -> None:
    data = written(tmp_path / "x", kind, (64, 64)).read_bytes()[:-20]
    assert not formats.looks_whole(data[: formats.HEAD], data[-formats.TAIL :], len(data))


def test_the_first_picture_of_a_moving_one_is_read(tmp_path: Path) -> None:
    first, second = (Image.new("RGB", (8, 8), colour) for colour in ("red", "blue"))
    first.save(tmp_path / "x.gif", save_all=True, append_images=[second])
    assert decode_resized((tmp_path / "x.gif").read_bytes(), (8, 8), "crop")[0, 0].tolist()[0] > 200


def test_heic_names_the_extra_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    formats._heif.cache_clear()
    assert formats.kind(HEIC[: formats.HEAD]) == "HEIC"
    with pytest.raises(DataError, match=r"pip install 'esacl\[heic\]'"):
        decode_resized(HEIC, (8, 8), "crop")
    formats._heif.cache_clear()


def test_heic_is_read_where_it_is_installed(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(Image.new("RGB", (32, 32), (200, 30, 60))).save(tmp_path / "x.heic")
    assert abs(int(decode_resized((tmp_path / "x.heic").read_bytes(), (8, 8), "crop")[0, 0, 0]) - 200) < 10


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    for number in range(5):
        written(tmp_path / "a" / f"{number}.png", "PNG")
        written(tmp_path / "b" / f"{number}.png", "PNG")
    (tmp_path / "a" / "notes.txt").write_text("no image")
    (tmp_path / "a" / "empty.jpg").write_bytes(b"")
    (tmp_path / "b" / "text.png").write_text("no image")
    (tmp_path / "b" / "phone.heic").write_bytes(HEIC)
    with pytest.warns(UserWarning, match="3 of the 13 image files") as caught:
        open_stream(StreamConfig(f"folder:{tmp_path}", image_size=8))
    told = str(caught[0].message)
    assert "2 × not a readable image" in told
    assert "1 × HEIC images need pip install 'esacl[heic]'" in told or "pillow_heif" in sys.modules
    assert "1 other files are no images" in told


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "x.jpg")
    left_out = LeftOut()
    assert listed([tmp_path], left_out) == []
    assert left_out.others == 1
