import datetime
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esacl.errors import DataError
from esacl.streams.unpickle import load
from tests.streams.layouts import pixels, python2_pickle


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_python_2_pickles_come_back_as_arrays_and_lists() -> None:
    data = pixels(3, 0)
    found = load(python2_pickle({"data": data, "labels": [1, 2, 300], "batch_label": "x"}), "file")
    assert (found["data"] == data).all()
    assert found["data"].dtype == np.uint8
    assert found["labels"] == [1, 2, 300]
    assert found["batch_label"] == b"x"


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("fortran", [False, True])
def test_pickles_of_python_3_and_either_numpy_are_read(protocol: int, fortran: bool) -> None:
    data = np.asarray(pixels(2, 1), order="F" if fortran else "C")
    text = pickle.dumps({b"data": data, "labels": np.array([1, 2])}, protocol)
    for module in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        if protocol < 4:  # later protocols count the length of names
            text = text.replace(b"numpy._core.multiarray", module).replace(b"numpy.core.multiarray", module)
        found = load(text, "file")
        assert (found["data"] == data).all()
        assert found["labels"].tolist() == [1, 2]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_call_of_os_system_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    proof = tmp_path / "ran"
    attack = pickle.dumps({"data": Calls(os.system, f"touch {proof}")}, protocol)
    with pytest.raises(DataError, match=r"^'batch' in 'x' is not safe to read: it asks for (posix|nt)\.system"):
        load(attack, "'batch' in 'x'")
    assert not proof.exists()


@pytest.mark.parametrize(
    "value",
    [
        np.array([{"a": 1}], dtype=object),
        np.array([1.5]),
        np.array([(1, 2)], dtype=[("a", "u1"), ("b", "u1")]),
        np.array([1, 2], dtype=">i4"),
        np.zeros((2, 2, 2), np.uint8),
        np.ma.masked_array([1, 2], [True, False]),
        np.uint8(3),
        Calls(eval, "1"),
        Calls(getattr, "x", "upper"),
        Calls(np.load, "x"),
        OrderedDict(),
        datetime.date(2000, 1, 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_cifar_file_does_not_need_is_refused(value: object) -> None:
    with pytest.raises(DataError, match="not safe to read") as error:
        load(pickle.dumps({"data": value}, 2), "file")
    assert "\n" not in str(error.value)


def array_with(shape: bytes, raw: bytes) -> bytes:
    text = python2_pickle({"data": np.zeros(1, np.uint8)})
    raw_zero = b"T\x01\x00\x00\x00\x00"
    return text.replace(b"(J\x01\x00\x00\x00t", shape).replace(raw_zero, raw)


def test_an_array_that_claims_an_absurd_size_is_refused() -> None:
    assert load(array_with(b"(J\x01\x00\x00\x00t", b"T\x01\x00\x00\x00\x07"), "file")["data"].tolist() == [7]
    for shape in (b"(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ft", b"(J\xff\xff\xff\xfft", b"(J\x02\x00\x00\x00t"):
        with pytest.raises(DataError, match="not safe to read"):
            load(array_with(shape, b"T\x01\x00\x00\x00\x07"), "file")


def test_a_memo_number_that_would_reserve_gigabytes_is_refused() -> None:
    for memo in (b"r\xff\xff\xff\x0f", b"p268435455\n"):
        with pytest.raises(DataError, match="memo number 268435455 was refused"):
            load(b"\x80\x02}" + memo + b".", "file")


def test_tuples_that_are_put_into_one_another_without_end_are_refused() -> None:
    twice = b"".join(b"h%c\x86q%c" % (number, number + 1) for number in range(1, 60))
    for tuples, told in ((twice, "again and again"), (b"\x85" * 900_000, "over 100 deep")):
        with pytest.raises(DataError, match=f"not safe to read: .*{told}"):
            load(b"\x80\x02}()q\x01" + tuples + b"K\x01u.", "file")


def test_a_pickle_cannot_change_what_stands_for_numpy() -> None:
    for target in (b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\nndarray\n"):
        for state in (b"}U\x08__call__K\x01s", b"N}U\x08__call__K\x01s\x86"):
            with pytest.raises(DataError):
                load(b"\x80\x02}U\x01x" + target + state + b"bs.", "file")
    test_python_2_pickles_come_back_as_arrays_and_lists()


def test_a_pickle_of_something_else_than_a_dictionary_is_refused() -> None:
    with pytest.raises(DataError, match="does not hold a dictionary"):
        load(pickle.dumps([1, 2]), "file")


@pytest.mark.parametrize("keep", [0, 1, 10, 100, -1])
def test_a_truncated_pickle_gives_one_clear_line(keep: int) -> None:
    with pytest.raises(DataError, match=r"^file is damaged or not a pickle") as error:
        load(python2_pickle({"data": pixels(1, 0), "labels": [1]})[:keep], "file")
    assert "\n" not in str(error.value)


def complaint(data: bytes) -> str:
    """What is said about these bytes; nothing if they are read."""
    try:
        load(data, "file")
    except DataError as error:
        return str(error)
    return ""


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_give_one_clear_line(data: bytes) -> None:
    said = complaint(data)
    assert not said or (said.startswith("file ") and "\n" not in said)


WHOLE = python2_pickle({"data": np.arange(8, dtype=np.uint8).reshape(2, 4), "labels": [1, 2]})


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_one_wrong_byte_is_read_or_gives_one_clear_line(place: int, value: int) -> None:
    data = bytearray(WHOLE)
    data[place] = value
    said = complaint(bytes(data))
    assert not said or (said.startswith("file ") and "\n" not in said)


def test_the_name_of_what_is_refused_commands_no_terminal() -> None:
    with pytest.raises(DataError, match=r"it asks for os\.sys\\x1btem, which") as caught:
        load(b"cos\nsys\x1btem\n.", "file")
    assert str(caught.value).isprintable()
