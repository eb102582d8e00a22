from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from esacl import Config, as_stream, from_arrays, open_stream, run
from esacl.config import StreamConfig
from esacl.deploy.opening import open_model
from esacl.errors import ConfigError
from esacl.rng import generator
from esacl.streams.images import decode_resized
from esacl.streams.inputs import ImageInputs
from esacl.streams.resize import placed, resized
from tests.reference import resize as naive

RULES = ("crop", "pad", "squash")
SIDES = st.integers(1, 40)


def noise(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, generator=generator(0, "noise"), dtype=torch.uint8)


@given(height=SIDES, width=SIDES, to=st.tuples(SIDES, SIDES), rule=st.sampled_from(RULES))
@example(height=1, width=40, to=(3, 3), rule="pad")
@example(height=40, width=3, to=(20, 10), rule="crop")
def test_a_batch_is_resized_as_pillow_resizes_each_image(height: int, width: int, to: tuple[int, int], rule) -> None:
    images = noise(3, 3, height, width)
    together = resized(images, to, rule)
    assert together.dtype == torch.uint8
    for image, own in zip(images, together):
        assert (own.int() - naive.resized(image, to, rule).int()).abs().max() <= 1


@given(height=SIDES, width=SIDES, to=st.tuples(SIDES, SIDES), rule=st.sampled_from(RULES))
def test_what_is_shown_and_where_lie_inside(height: int, width: int, to: tuple[int, int], rule) -> None:
    for window, (rows, columns) in zip(placed((height, width), to, rule), ((height, width), to)):
        assert 0 <= window.top < window.top + window.height <= rows
        assert 0 <= window.left < window.left + window.width <= columns


@pytest.mark.parametrize("rule", RULES)
def test_a_file_and_an_array_of_the_same_image_become_the_same_pixels(tmp_path: Path, rule) -> None:
    image = noise(1, 3, 30, 50)
    Image.fromarray(image[0].permute(1, 2, 0).numpy()).save(tmp_path / "x.png")
    decoded = torch.from_numpy(decode_resized((tmp_path / "x.png").read_bytes(), (20, 20), rule)).permute(2, 0, 1)
    assert (decoded.int() - resized(image, (20, 20), rule)[0].int()).abs().max() <= 1


def test_a_square_image_is_the_same_by_every_rule() -> None:
    images = noise(2, 3, 9, 9)
    assert all(torch.equal(resized(images, (20, 20), rule), resized(images, (20, 20), "crop")) for rule in RULES)
    assert resized(images, (9, 9), "pad") is images


def test_padding_is_black() -> None:
    padded = resized(torch.full((1, 3, 10, 20), 255, dtype=torch.uint8), (20, 20), "pad")
    assert padded[:, :, :5].max() == 0
    assert padded[:, :, 15:].max() == 0
    assert padded[:, :, 5:15].min() == 255


def test_many_images_are_resized_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    images = noise(10, 1, 8, 6)
    whole = resized(images, (5, 5), "pad")
    monkeypatch.setattr("esacl.streams.resize._AT_ONCE", 3)
    assert torch.equal(resized(images, (5, 5), "pad"), whole)


def test_larger_images_are_made_a_batch_at_a_time() -> None:
    small, large = open_stream("split-digits"), open_stream(StreamConfig(image_size=24))
    assert (small.shape, large.shape) == ((1, 8, 8), (1, 24, 24))
    stored = large.tasks[0].train.x
    assert torch.equal(stored, small.tasks[0].train.x)
    expected = resized(stored[:4], (24, 24), "crop")
    assert torch.equal(large.inputs.plain(stored[:4]), small.inputs.plain(expected))


def test_smaller_images_are_resized_once() -> None:
    stream = open_stream(StreamConfig(image_size=4))
    assert stream.shape == (1, 4, 4)
    assert stream.tasks[0].train.x.shape[1:] == (1, 4, 4)
    assert stream.inputs.size is None


def test_padding_of_the_shifted_crop_shrinks_with_the_image() -> None:
    source = as_stream((noise(40, 3, 16, 16), [0, 1] * 20), image_size=8)
    assert source.inputs.padding == 0
    inputs = ImageInputs((0.0,), (1.0,), padding=4, flip=True, size=64)
    raw, index = noise(3, 1, 32, 32), torch.arange(3)
    moved = ImageInputs((0.0,), (1.0,)).plain(resized(inputs.crop_and_flip(raw, 5, index), (64, 64), "crop"))
    assert torch.equal(inputs.augmented(raw, 5, index), moved)


def test_arrays_and_lists_of_tasks_are_resized(tmp_path: Path) -> None:
    x, y = noise(40, 3, 12, 20), [0, 1] * 20
    for stream in (from_arrays(x, y, image_size=8, resize="pad"), as_stream([(x, y), (x, y)], image_size=8)):
        assert stream.shape == (3, 8, 8)
    upper = as_stream([(x, y), (x, y)], image_size=24)
    assert (upper.shape, upper.inputs.size) == ((3, 24, 24), 24)
    floats = from_arrays(x.float(), y, image_size=24)
    assert floats.inputs.plain(floats.tasks[0].train.x[:2]).shape == (2, 3, 24, 24)
    with pytest.raises(ConfigError, match="holds features, not images"):
        from_arrays(x[:, 0, 0].float(), y, image_size=24)


def test_a_model_answers_for_the_pixels_it_was_evaluated_on_and_remembers_small_images(tmp_path: Path) -> None:
    config = Config.of(
        method="er", tasks=2, limit_per_class=20, epochs=1, buffer=10, image_size=16, backbone="cnn", width=4
    )
    results = run(config, tmp_path / "run")
    assert (
        run(
            Config.of(method="er", tasks=2, limit_per_class=20, epochs=1, buffer=10, backbone="cnn", width=4),
            tmp_path / "small",
        ).remembered_bytes
        == results.remembered_bytes
    )
    model = open_model(tmp_path / "run")
    assert (model.shape, model.scale.resize) == ((1, 16, 16), "crop")
    shares = []
    for task in open_stream(config.stream).tasks:
        digits = [
            np.asarray(Image.fromarray(image[0].numpy()).resize((16, 16), Image.Resampling.BILINEAR))
            for image in task.test.x
        ]
        with torch.no_grad():
            answers = model.answering()(torch.from_numpy(np.stack(digits)).unsqueeze(1).float() / 255)[1].argmax(1)
        shares.append(float((answers == task.test.y).double().mean()))
    assert shares == pytest.approx(results.matrix["class_il"][-1])


def test_a_fingerprint_tells_sizes_and_rules_apart() -> None:
    config = StreamConfig(limit_per_class=5)
    assert repr(ImageInputs((0.0,), (1.0,))) == "ImageInputs(mean=(0.0,), std=(1.0,), padding=0, flip=False)"
    larger = StreamConfig(limit_per_class=5, image_size=24)
    assert open_stream(config).fingerprint() != open_stream(larger).fingerprint()
