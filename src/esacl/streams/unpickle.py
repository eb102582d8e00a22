"""Reads CIFAR's Python-2 pickles without running them.

A pickle names functions and calls them. Here each of the few names these files need stands for a harmless twin, every
other name is refused, and arrays are built from checked bytes after loading: no NumPy code sees the pickle.
"""

import pickle
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from esacl.errors import DataError
from esacl.pickles import Refused, check_operations

_DTYPES: dict[str, np.dtype[Any]] = {"u1": np.dtype("u1"), "i4": np.dtype("<i4"), "i8": np.dtype("<i8")}
_ARRAY_CLASS = "numpy.ndarray"  # an immutable token: the pickle only passes it to _reconstruct


def load(data: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a pickle: text keys; values are arrays, lists, numbers, strings. `where` names it in errors."""
    try:
        check_operations(data, _USELESS)
        loaded = _Unpickler(BytesIO(data), encoding="bytes").load()
        if not isinstance(loaded, dict):
            raise DataError(f"{where} does not hold a dictionary but {type(loaded).__name__!r}.")
        return {_text(key): _plain(value) for key, value in loaded.items()}
    except Refused as error:
        raise DataError(f"{where} is not safe to read: {error}.") from None
    except DataError:
        raise
    except Exception as error:  # damaged pickles make the unpickler raise almost anything
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"{where} is damaged or not a pickle: {reason}.") from None


_USELESS = {"DUP", "POP", "POP_MARK", "EMPTY_SET", "ADDITEMS", "FROZENSET", "OBJ", "INST", "NEWOBJ", "NEWOBJ_EX"}


class _Dtype:
    """Twin of a pickled `numpy.dtype`: whole numbers only."""

    __slots__ = ("value",)

    def __init__(self, code: Any) -> None:
        code = _text(code)
        if code not in _DTYPES:
            raise Refused(f"an array of type {code!r} was refused")
        self.value = _DTYPES[code]

    def __setstate__(self, state: Any) -> None:
        order, structure = _text(state[1]), state[2:5]
        if order not in ("<", "|") or any(part is not None for part in structure):
            raise Refused("an array with a structured or big-endian type was refused")


class _Array:
    """Twin of a pickled `numpy.ndarray`."""

    __slots__ = ("_state",)

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def value(self) -> npt.NDArray[Any]:
        """The array, a read-only look at the pickle's bytes."""
        _, shape, dtype, fortran, raw = self._state
        sizes = isinstance(shape, tuple) and len(shape) <= 2 and all(type(n) is int and n >= 0 for n in shape)
        if not sizes or not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
            raise Refused("an array that is not a plain table of whole numbers was refused")
        if prod(shape) * dtype.value.itemsize != len(raw):
            raise Refused(f"an array of shape {shape} with {len(raw)} bytes was refused")
        table: npt.NDArray[Any] = np.frombuffer(raw, dtype.value).reshape(shape, order="F" if fortran else "C")
        return table


class _Function:
    """A callable twin; it has no attributes, so a pickle cannot change it for the next one."""

    __slots__ = ()


class _Reconstruct(_Function):
    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Array:
        if arguments[0] != _ARRAY_CLASS:
            raise Refused("an array of a foreign class was refused")
        return _Array()


class _MakeDtype(_Function):
    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Dtype:
        return _Dtype(arguments[0])


class _Encode(_Function):
    """How Python 3 writes bytes in protocol 2."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> bytes:
        text, encoding = arguments
        if not isinstance(text, str) or encoding != "latin1":
            raise Refused("an encoded text other than latin1 was refused")
        return text.encode("latin1")


_TWINS: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),  # NumPy 1
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),  # NumPy 2
    ("numpy", "ndarray"): _ARRAY_CLASS,
    ("numpy", "dtype"): _MakeDtype(),
    ("_codecs", "encode"): _Encode(),
}


def _quiet(module: str, name: str) -> str:
    """A name that commands no terminal."""
    return ascii(f"{module}.{name}")[1:-1]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The twin of a global, never the global itself."""
        if (module, name) not in _TWINS:
            raise Refused(f"it asks for {_quiet(module, name)}, which a CIFAR file has no use for")
        return _TWINS[module, name]


def _text(value: Any) -> str:
    if not isinstance(value, bytes | str):
        raise Refused(f"a name that is not text but {type(value).__name__} was refused")
    return value.decode("latin1") if isinstance(value, bytes) else value


def _plain(value: Any) -> Any:
    return value.value() if isinstance(value, _Array) else value
