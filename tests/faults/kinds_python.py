"""Calls of the library with arrays, labels and settings that are not as they should be."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch

from tests.faults import damage_values
from tests.faults.actions import call
from tests.faults.case import Case, Kind, Place

SHAPES = (
    (),
    (0,),
    (1,),
    (20,),
    (20, 0),
    (20, 1),
    (20, 12),
    (19, 12),
    (20, 8, 8),
    (20, 3, 8, 8),
    (20, 8, 8, 3),
    (20, 3, 5, 3),
    (20, 1, 1, 1),
    (20, 2, 2, 2, 2),
    (2, 12),
    (1, 12),
)
ARRAYS = (
    "float32",
    "float64",
    "float16",
    "uint8",
    "int64",
    "int8",
    "bool",
    "complex64",
    "object",
    "U4",
    "S4",
    "datetime64[s]",
    "V4",
    "longdouble",
    "uint64",
)
TENSORS = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.uint8,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
)
PARAMETERS = (
    "method",
    "sparsity",
    "buffer",
    "epochs",
    "batch_size",
    "lr",
    "backbone",
    "width",
    "columns",
    "max_classes",
    "expected_tasks",
    "channels",
    "options",
    "device",
    "random_state",
)
SPECIAL: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: 3,
    lambda: "text",
    lambda: b"bytes",
    list,
    dict,
    lambda: [[1.0, 2.0], [3.0]],
    lambda: [[None, 1.0]] * 20,
    lambda: object(),
    lambda: iter([1, 2]),
    lambda: {1, 2},
    lambda: torch.zeros(20, 12, device="meta"),
    lambda: torch.zeros(20, 12).to_sparse(),
    lambda: torch.zeros(20, 12, requires_grad=True),
    lambda: torch.quantize_per_tensor(torch.zeros(20, 12), 0.1, 0, torch.quint8),
    lambda: np.ma.masked_invalid(np.full((20, 12), np.nan)),
    lambda: np.broadcast_to(np.float32(1), (20, 12)),
    lambda: np.zeros((20, 12), dtype=">f4"),
    lambda: np.zeros((40, 24), np.float32)[::2, ::-2],
    lambda: np.zeros((20, 12), dtype=[("a", "f4")]),
    lambda: np.array([[{}] * 12] * 20, dtype=object),
    lambda: [torch.zeros(12)] * 20,
    lambda: np.full((20, 12), 3e38),
    lambda: np.full((20, 12), 10**40, dtype=object),
)


def _array(rng: Random) -> tuple[Any, str]:
    """Something in the place of an array."""
    way = rng.randrange(10)
    if way < 3:
        number = rng.randrange(len(SPECIAL))
        return SPECIAL[number](), f"special {number}"
    shape = rng.choice(SHAPES) if rng.random() < 0.7 else (20, 12)
    if way < 5:
        kind = rng.choice(TENSORS)
        return torch.zeros(shape).to(kind), f"a tensor {kind} {shape}"
    dtype = rng.choice(ARRAYS)
    values = np.random.default_rng(rng.randrange(1000)).integers(0, 9, shape).astype(dtype)
    told = f"an array {dtype} {shape}"
    if values.dtype.kind == "f" and values.size and rng.random() < 0.4:
        bad = rng.choice((np.nan, np.inf, -np.inf, 1e30, 1e-45))
        with np.errstate(all="ignore"):
            values.flat[rng.randrange(values.size)] = bad
        told += f" with {bad}"
    return (values.tolist(), f"{told} as lists") if rng.random() < 0.1 else (values, told)


def _labels(rng: Random, count: int = 20) -> tuple[Any, str]:
    way = rng.randrange(8)
    if way < 4:
        return np.arange(count) % 2, "good labels"
    if way == 4:
        return _array(rng)
    kinds: tuple[Any, ...] = (
        ["a", "b"], [0, "a"], [0.5, 1.5], [True, False], [None, 1], [float("nan"), 1.0], [-1, 2**62], [2**70, 0],
        ["", "\0"], [(1,), (2,)], [[1], [2]], [b"x", b"y"], [1, 1], [1j, 2j], ["\ud800", "x"], [0, 10**9],
        [np.datetime64("2020"), np.datetime64("2021")],
    )  # fmt: skip
    chosen = rng.choice(kinds)
    return (chosen * count)[:count], f"labels {chosen!a}"


def arrays(rng: Random, place: Place) -> Case:
    """`from_arrays` and `as_stream`."""
    (x, what), (y, labels) = _good(rng) if rng.random() < 0.2 else _array(rng), _labels(rng)
    names = rng.sample(
        (
            "tasks",
            "classes_per_task",
            "class_order",
            "limit_per_class",
            "validation",
            "class_names",
            "name",
            "blur",
            "seed",
        ),
        rng.choice((0, 0, 1, 2)),
    )
    more = {name: damage_values.poison(rng) for name in names}
    together = rng.random() < 0.3
    test = _array(rng)[0] if rng.random() < 0.2 else None

    def action() -> None:
        import esacl

        if together:
            esacl.as_stream([(x, y), (x, y)], **({} if test is None else {"test": test}))
        else:
            esacl.from_arrays(x, y, **({} if test is None else {"x_test": test, "y_test": y}), **more)

    name = "as_stream" if together else "from_arrays"
    beside = "" if test is None else ", with a test"
    return Case(call(action), (f"{name} of {what} and {labels}, {ascii(more)[:200]}{beside}",))


def _good(rng: Random) -> tuple[Any, str]:
    return np.random.default_rng(rng.randrange(1000)).normal(size=(20, 12)), "good features"


def estimator(rng: Random, place: Place) -> Case:
    """`ContinualClassifier`: one to three calls, one of them at least with something strange."""
    given: dict[str, Any] = {
        "method": "er",
        "epochs": 1,
        "width": 8,
        "batch_size": 8,
        "max_classes": 6,
        "random_state": 0,
    }
    told = []
    if rng.random() < 0.4:
        name = rng.choice(PARAMETERS)
        given[name] = damage_values.poison(rng)
        told.append(f"{name} = {ascii(given[name])[:60]}")
    steps: list[tuple[str, Any, Any]] = []
    for name in (
        "partial_fit",
        *rng.choices(("partial_fit", "predict", "predict_proba", "score", "fit", "save"), k=rng.randrange(3)),
    ):
        (x, what), (y, labels) = _good(rng) if rng.random() < 0.4 else _array(rng), _labels(rng)
        steps.append((name, x, y))
        told.append(f"{name} of {what} and {labels}")

    def action() -> None:
        import esacl

        model = esacl.ContinualClassifier(**given)
        for name, x, y in steps:
            if name == "save":
                model.save("saved")
                esacl.ContinualClassifier.load("saved")
            elif name in ("fit", "partial_fit", "score"):
                getattr(model, name)(x, y)
            else:
                getattr(model, name)(x)

    return Case(call(action), tuple(told), starts=True, consents=True)


KINDS = (Kind("arrays", arrays, 3), Kind("estimator", estimator, 4))
