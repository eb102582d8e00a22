from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from esacl.errors import ConfigError, DataError
from esacl.streams import Stream, from_arrays

Y = [0, 1, 2, 3] * 5
IMAGES = np.random.default_rng(0).integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
GREY = IMAGES[..., 0]
FEATURES = np.random.default_rng(0).normal(size=(20, 7))


def everything(stream: Stream) -> torch.Tensor:
    parts = [task.split(name) for task in stream.tasks for name in ("train", "validation", "test")]
    return torch.cat([part.x for part in parts])


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (IMAGES, (3, 6, 5)),
        (IMAGES.transpose(0, 3, 1, 2), (3, 6, 5)),
        (GREY, (1, 6, 5)),
        (GREY[..., None], (1, 6, 5)),
        (GREY[:, None], (1, 6, 5)),
        (torch.from_numpy(IMAGES), (3, 6, 5)),
        (FEATURES, (1, 1, 7)),
        (FEATURES.astype(np.float16), (1, 1, 7)),
        (torch.from_numpy(FEATURES).requires_grad_(), (1, 1, 7)),
        (FEATURES.tolist(), (1, 1, 7)),
        (np.asfortranarray(FEATURES), (1, 1, 7)),
        (np.broadcast_to(GREY[:1], GREY.shape), (1, 6, 5)),
    ],
)
def test_every_accepted_form_is_stored_alike(x: Any, shape: tuple[int, int, int]) -> None:
    stream = from_arrays(x, Y)
    assert stream.shape == shape
    assert everything(stream).dtype == (torch.uint8 if shape[1] > 1 else torch.float32)
    assert len(everything(stream)) == 20


def test_images_keep_their_pixels_in_either_layout() -> None:
    last, first = from_arrays(IMAGES, Y), from_arrays(IMAGES.transpose(0, 3, 1, 2), Y)
    assert last.fingerprint() == first.fingerprint()
    kept = {image.numpy().tobytes() for image in everything(last)}
    assert kept == {image.transpose(2, 0, 1).tobytes() for image in IMAGES}


def test_a_stream_does_not_share_memory_with_the_caller() -> None:
    x = IMAGES.copy()
    stream = from_arrays(x, Y)
    before = stream.fingerprint()
    x[:] = 0
    assert stream.fingerprint() == before


def test_features_reach_the_network_unchanged() -> None:
    stream = from_arrays(FEATURES, Y)
    raw = stream.tasks[0].train.x
    assert stream.inputs.plain(raw).equal(raw)


def test_images_are_normalised_by_their_own_mean_and_spread() -> None:
    stream = from_arrays(IMAGES, Y, IMAGES, Y)
    normalised = stream.inputs.plain(torch.from_numpy(IMAGES).permute(0, 3, 1, 2))
    assert normalised.mean(dim=(0, 2, 3)).abs().max() < 1e-3
    assert (normalised.std(dim=(0, 2, 3)) - 1).abs().max() < 2e-3
    assert torch.isfinite(from_arrays(np.zeros_like(IMAGES), Y).inputs.plain(torch.zeros(1, 3, 6, 5).byte())).all()


@pytest.mark.parametrize("x", [IMAGES / 255, IMAGES.transpose(0, 3, 1, 2) * 3.0 - 40], ids=["0 to 1", "any scale"])
def test_float_images_are_scaled_by_their_own_mean_and_spread(x: Any) -> None:
    stream = from_arrays(x, Y, x, Y)
    stored = everything(stream)
    assert stream.shape == (3, 6, 5)
    assert stored.dtype == torch.float32
    train = torch.cat([part.x for task in stream.tasks for part in (task.train, task.validation)])
    assert train.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert (train.std(dim=(0, 2, 3), correction=0) - 1).abs().max() < 1e-5
    assert stream.inputs.plain(stored).equal(stored)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "d", "c"], ("a", "b", "c", "d")),
        ([30, -1, 7, 8], ("-1", "7", "8", "30")),
        ([1, "a", (2, 3), True + 1.5], ("1", "a", "(2, 3)", "2.5")),
        ([True, False, True, False], ("False", "True")),
    ],
)
def test_labels_may_be_anything_hashable(labels: list[Any], names: tuple[str, ...]) -> None:
    assert from_arrays(FEATURES, labels * 5).class_names == names


@pytest.mark.parametrize("label", [torch.ones(2), np.ones((1, 2))])
def test_a_label_with_several_values_is_refused(label: Any) -> None:
    with pytest.raises(DataError, match=r"y_train has the label .* in row 1; a label is a number or a text"):
        from_arrays(np.zeros((4, 3), np.float32), [0, label, 1, 1], classes_per_task=1)


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_labels_may_be_arrays(kind: Callable[[list[int]], Any]) -> None:
    assert from_arrays(FEATURES, kind(Y)).fingerprint() == from_arrays(FEATURES, Y).fingerprint()


def test_class_names_name_the_sorted_labels() -> None:
    assert from_arrays(FEATURES, Y, class_names=["w", "x", "y", "z"]).class_names == ("w", "x", "y", "z")
    with pytest.raises(DataError, match="class_names has 1 names, but y_train has 4"):
        from_arrays(FEATURES, Y, class_names=["w"])


def test_given_test_arrays_are_the_test_split() -> None:
    stream = from_arrays(FEATURES, Y, FEATURES[:4] + 1, Y[:4], tasks=2)
    assert [len(task.test) for task in stream.tasks] == [2, 2]
    assert sum(len(task.train) + len(task.validation) for task in stream.tasks) == 20


NAN = FEATURES.copy()
NAN[3, 2] = np.nan
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "NaN": ({"x_train": NAN}, "NaN or infinite values in 1 rows, the first is row 3"),
    "overflow": ({"x_train": FEATURES * 1e300}, "infinite values in 20 rows"),
    "length": ({"y_train": Y[:-1]}, "x_train has 20 examples, but y_train has 19 labels"),
    "empty": ({"x_train": FEATURES[:0], "y_train": []}, "x_train is empty"),
    "single class": ({"y_train": [4] * 20}, "single class, 4"),
    "NaN image": ({"x_train": np.full((20, 6, 5, 3), np.nan)}, "NaN or infinite values in 20 rows"),
    "float alpha": ({"x_train": np.zeros((20, 6, 5, 4))}, "1 or 3 channels"),
    "integers": ({"x_train": IMAGES.astype(int)}, "type int64"),
    "flat uint8": ({"x_train": GREY.reshape(20, -1)}, "type uint8 and shape"),
    "alpha": ({"x_train": np.zeros((20, 6, 5, 4), np.uint8)}, "1 or 3 channels"),
    "ambiguous": ({"x_train": np.zeros((20, 3, 5, 3), np.uint8)}, "1 or 3 channels"),
    "ragged": ({"x_train": [[1.0], [1.0, 2.0]]}, "rows differ in length"),
    "text": ({"x_train": ["a"] * 20}, "Allowed"),
    "scalar": ({"x_train": 3.0}, "Allowed"),
    "one-hot labels": ({"y_train": np.eye(20)}, r"y_train has shape \[20, 20\]"),
    "label NaN": ({"y_train": [float("nan"), *Y[1:]]}, "the label nan in row 0"),
    "label None": ({"y_train": [*Y[:-1], None]}, "the label None in row 19"),
    "label list": ({"y_train": [*Y[:-1], [1]]}, r"the label \[1\] in row 19"),
    "rare class": ({"y_train": [9, 9, *Y[2:]]}, "class 9 has 2 training examples, but at least 3"),
    "only x_test": ({"x_test": FEATURES}, "belong together"),
    "unknown test label": ({"x_test": FEATURES, "y_test": [7] * 20}, "y_test has the label 7, which does not occur"),
    "class without test": ({"x_test": FEATURES, "y_test": [1] * 20}, "class 0 has 0 test examples"),
    "other width": ({"x_test": FEATURES[:, :3], "y_test": Y}, "x_test holds 3 features, but x_train holds 7"),
    "other kind": ({"x_test": GREY, "y_test": Y}, "x_test holds images"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arrays_give_one_clear_line(case: str) -> None:
    changes, message = WRONG[case]
    with pytest.raises(DataError, match=message) as error:
        from_arrays(**{"x_train": FEATURES, "y_train": Y, **changes})
    assert "\n" not in str(error.value)


def test_wrong_settings_say_what_is_allowed() -> None:
    with pytest.raises(
        ConfigError, match=r"from_arrays.tasks = 0 is not allowed. Allowed: a whole number of at least 1"
    ):
        from_arrays(FEATURES, Y, tasks=0)
    with pytest.raises(ConfigError, match="tasks = 3 does not divide the 4 classes"):
        from_arrays(FEATURES, Y, tasks=3)


@given(st.integers(2, 9), st.integers(3, 12), st.sampled_from(["fixed", "shuffled"]), st.integers(0, 3))
def test_every_example_is_in_exactly_one_split_with_its_own_label(
    classes: int, each: int, order: Any, seed: int
) -> None:
    y = np.arange(classes).repeat(each)
    x = np.arange(classes * each, dtype=np.float64)[:, None]
    stream = from_arrays(x, y, class_order=order, seed=seed)
    seen: list[int] = []
    for task in stream.tasks:
        for name in ("train", "validation", "test"):
            part = task.split(name)
            rows = part.x.flatten().long()
            seen += rows.tolist()
            assert [stream.class_names[column] for column in part.y.tolist()] == [str(y[row]) for row in rows.tolist()]
            assert set(part.y.tolist()) == set(task.classes)  # at least one example of each class in each split
    assert sorted(seen) == list(range(classes * each))


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16])
def test_tensors_of_short_floats_are_read(kind):
    x = torch.arange(40.0).reshape(20, 2).to(kind)
    stream = from_arrays(x, [0, 1] * 10)
    assert stream.tasks[0].train.x.dtype == torch.float32


def test_a_quantized_tensor_is_read_by_its_values():
    x = torch.quantize_per_tensor(torch.arange(40.0).reshape(20, 2), 0.5, 0, torch.quint8)
    assert everything(from_arrays(x, [0, 1] * 10)).unique().tolist() == torch.arange(40.0).tolist()
