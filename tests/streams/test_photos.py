import warnings
from pathlib import Path

import pytest
import torch
from PIL import Image

from esacl.cli import main
from esacl.config import StreamConfig
from esacl.errors import ConfigError
from esacl.rng import generator
from esacl.streams import Stream, open_stream, photos, pixels
from esacl.streams.loading import Loader
from esacl.streams.rows import OnDemand
from esacl.training.trainer import Trainer
from tests import builders
from tests.resuming import assert_resumes

CACHES = ("ram", "disk", "none")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(pixels.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Two classes of photos of several shapes."""
    draw = generator(0, "album")
    for name in ("cat", "dog"):
        (tmp_path / "album" / name).mkdir(parents=True)
        for number in range(12):
            shape = (20 + number, 30, 3) if number % 2 else (30, 20 + number, 3)
            values = torch.randint(0, 256, shape, generator=draw, dtype=torch.uint8)
            Image.fromarray(values.numpy()).save(tmp_path / "album" / name / f"{number:02}.jpg")
    return tmp_path / "album"


def opened(album: Path, cache: str | None, **options: object) -> Stream:
    return open_stream(StreamConfig(f"folder:{album}", tasks=1, image_size=16, cache=cache, **options))  # type: ignore[arg-type]


def test_images_are_the_same_wherever_they_are_kept(album: Path) -> None:
    streams = [opened(album, cache) for cache in (*CACHES, "disk")]
    assert [isinstance(stream.tasks[0].train.x, OnDemand) for stream in streams] == [False, True, True, True]
    for stream in streams[1:]:
        assert stream.inputs == streams[0].inputs
        for name in ("train", "validation", "test"):
            first, own = (each.tasks[0].split(name) for each in (streams[0], stream))
            assert torch.equal(own.y, first.y)
            assert torch.equal(own.x[:], first.x[:])


def test_an_epoch_is_the_same_wherever_images_are_kept(album: Path) -> None:
    epochs = []
    for cache in CACHES:
        stream = opened(album, cache)
        epochs.append([*Loader(stream, 0, stream.tasks[0].train, 4, 7, torch.device("cpu"), views=2).epoch(1)])
    for epoch in epochs[1:]:
        for batch, first in zip(epoch, epochs[0], strict=True):
            assert torch.equal(batch.inputs, first.inputs)
            assert torch.equal(batch.index, first.index)


def test_large_sets_are_decoded_when_needed(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(opened(album, None).tasks[0].train.x, torch.Tensor)
    monkeypatch.setattr(photos, "BUDGET", 24 * 3 * 16 * 16 - 1)
    monkeypatch.setattr("esacl.streams.folder.MEASURED", 3)
    decode, seen = photos.decode_resized, []
    monkeypatch.setattr(photos, "decode_resized", lambda *given: (seen.append(1), decode(*given))[1])
    stream = opened(album, None)
    assert isinstance(stream.tasks[0].train.x, OnDemand)
    assert len(seen) == 3, "only what mean and spread are taken of"
    batch = stream.tasks[0].test.x[:]
    assert len(seen) == 3 + len(batch)
    assert torch.equal(stream.tasks[0].test.x[:], batch)
    assert len(seen) == 3 + len(batch), "decoded once"


def test_a_cache_that_was_changed_is_not_believed(album: Path, cache_folder: Path) -> None:
    before = opened(album, "disk").tasks[0].train.x[:]
    (file,) = cache_folder.iterdir()
    data = bytearray(file.read_bytes())
    data[-1] ^= 255
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    assert torch.equal(opened(album, "disk").tasks[0].train.x[:], before)
    file.write_bytes(b"short")
    assert torch.equal(opened(album, "disk").tasks[0].train.x[:], before)


def test_another_size_or_another_file_has_a_cache_of_its_own(album: Path, cache_folder: Path) -> None:
    opened(album, "disk")
    opened(album, "disk", resize="pad")
    Image.new("RGB", (20, 20)).save(album / "cat" / "00.jpg")
    opened(album, "disk")
    assert len(list(cache_folder.iterdir())) == 3


def test_caches_are_bounded(album: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "MOST", 24 * (3 * 16 * 16 + 4) * 2)
    opened(album, "disk")
    (oldest,) = cache_folder.iterdir()
    for rule in ("pad", "squash"):
        opened(album, "disk", resize=rule)
    assert len(list(cache_folder.iterdir())) == 2
    assert not oldest.exists()
    monkeypatch.setattr(pixels, "MOST", 1000)
    with pytest.raises(ConfigError, match="more than is free or allowed"):
        open_stream(StreamConfig(f"folder:{album}", tasks=1, image_size=20, cache="disk"))


def test_what_ends_too_early_is_left_out_at_the_start(album: Path) -> None:
    whole = (album / "cat" / "03.jpg").read_bytes()
    (album / "cat" / "03.jpg").write_bytes(whole[: len(whole) // 2])
    counts = []
    for cache in CACHES:
        with pytest.warns(UserWarning, match=r"1 of the 24 image files .* 1 were left out"):
            task = opened(album, cache).tasks[0]
        counts.append([len(task.split(name)) for name in ("train", "validation", "test")])
    assert counts[0] == counts[1] == counts[2]
    assert sum(counts[0]) == 23


def test_an_image_found_broken_while_training_becomes_grey_and_is_counted(album: Path) -> None:
    bad = album / "cat" / "03.jpg"
    bad.write_bytes(b"\xff\xd8\xff" + bytes(100) + b"\xff\xd9")
    with pytest.warns(UserWarning, match="became a grey image") as caught:
        stream = opened(album, "none")
    splits = [stream.tasks[0].split(name) for name in ("train", "validation", "test")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = torch.cat([split.x[:] for split in splits])
    assert len(caught) == 1
    assert len(values) == 24
    assert sum(bool((image == 128).all()) for image in values) == 1
    assert stream.left_out is not None
    assert list(stream.left_out.grey) == [str(bad)]
    assert not stream.left_out.much
    assert "1 were found while training and became grey images" in stream.left_out.told("it")


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_folder_that_loses_much_says_so_at_the_end_again(album: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        (album / "cat" / f"{number:02}.jpg").write_bytes(b"nothing")
    words = f"--tasks 1 --epochs 1 --method finetune --image-size 8 --backbone mlp --width 4 --out {album.parent}/run"
    with pytest.raises(SystemExit):
        main(["run", "--stream", f"folder:{album}", *words.split()])
    assert capfd.readouterr().err.count("3 of the 24 image files") == 2


def test_a_run_on_photos_is_resumed_to_the_same_bits(album: Path, tmp_path: Path) -> None:
    def build() -> Trainer:
        return builders.trainer("er", of=opened(album, "disk"))

    used = build()
    for _ in used.run():
        pass
    assert_resumes(build, used, tmp_path / "checkpoints")


def test_unchanged_folders_have_the_same_fingerprint(album: Path) -> None:
    first = opened(album, "none").fingerprint()
    assert opened(album, "disk").fingerprint() == first
    album.rename(album.parent / "moved")
    assert opened(album.parent / "moved", "none").fingerprint() == first
    Image.new("RGB", (9, 9)).save(album.parent / "moved" / "cat" / "00.jpg")
    with warnings.catch_warnings():
        assert opened(album.parent / "moved", "none").fingerprint() != first
