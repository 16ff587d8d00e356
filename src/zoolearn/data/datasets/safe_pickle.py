"""Pickles read without trust: plain values and arrays of numbers come out, nothing in the file is ever called.

Two publishers ship pickles. A pickle names functions to call; here the few names that numpy's own pickles contain lead to
the stand-ins below, and any other name is refused. An array is then built from its bytes after its shape and type are checked.
"""

import pickle
import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zoolearn.errors import DataError

Plain = Any  # None, bool, int, float, str, bytes, np.ndarray, and lists, tuples and dicts of these


def load_pickle(path: Path) -> Plain:
    """The plain content of a pickle of Python 2 or 3; anything else in it is an error that names it."""
    try:
        with path.open("rb") as file:
            return _plain(_Reader(file, encoding="latin1").load(), {})
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(f"{path} is truncated or not a pickle ({error}); fetch it again") from error


class _Dtype:
    """Stands for numpy.dtype."""

    def __init__(self, code: str, *_: object) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[<>|=]?[biuf][1248]", code):
            raise DataError(f"holds an array of type {code!r}; only arrays of numbers are read")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Plain, ...]) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise DataError(f"holds an array with byte order {state[1]!r}; the file is damaged")
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands for numpy.ndarray, and for the function that numpy's pickles make an empty one with."""

    def __init__(self, *_: object) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Plain, ...]) -> None:
        _, shape, dtype, fortran, content = state
        self.values = _values(content, dtype, shape, "F" if fortran else "C")


class _Buffer(_Array):
    """Stands for the function that numpy's pickles of protocol 5 make an array with."""

    def __init__(self, content: Plain, dtype: Plain, shape: Plain, order: Plain) -> None:
        self.values = _values(content, dtype, shape, order)


class _Bytes:
    """Stands for _codecs.encode, by which Python 3 writes bytes for Python 2."""

    def __init__(self, text: str, encoding: str) -> None:
        if encoding != "latin1":
            raise DataError(f"holds text in encoding {encoding!r}; only latin1 is read")
        self.content = text.encode("latin1")

    def __setstate__(self, state: Plain) -> None:
        raise DataError("gives a state to bytes; the file is damaged")


STAND_INS: dict[tuple[str, str], Callable[..., object]] = {
    ("_codecs", "encode"): _Bytes,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _Buffer,
    ("numpy._core.numeric", "_frombuffer"): _Buffer,
}


class _Reader(pickle.Unpickler):
    def __init__(self, file: BinaryIO, *, encoding: str) -> None:
        super().__init__(file, encoding=encoding)

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        if (module, name) not in STAND_INS:
            raise DataError(f"asks for {module}.{name}; only arrays, bytes, text, numbers, lists and dicts are read")
        return STAND_INS[module, name]


def _values(content: Plain, dtype: Plain, shape: Plain, order: Plain) -> np.ndarray[Any, Any]:
    if isinstance(content, _Bytes):
        content = content.content
    if isinstance(content, str):
        content = bytearray(content, "latin1")
    if not isinstance(content, bytes | bytearray) or not isinstance(dtype, _Dtype) or order not in ("C", "F"):
        raise DataError(f"holds an array of {type(content).__name__}; only arrays of numbers are read")
    if not isinstance(shape, tuple) or not all(isinstance(side, int) and side >= 0 for side in shape):
        raise DataError(f"holds an array of shape {shape!r}; the file is damaged")
    if prod(shape) * dtype.dtype.itemsize != len(content):
        raise DataError(f"holds {len(content)} bytes for an array of shape {shape}; the file is damaged")
    return np.frombuffer(content, dtype.dtype).reshape(shape, order=order)


def _plain(value: object, met: dict[int, Plain]) -> Plain:
    """The value with arrays and bytes in place of their stand-ins; `met` keeps what is shared shared."""
    if value is None or isinstance(value, bool | int | float | str | bytes | bytearray):
        return value
    if isinstance(value, _Array):
        return value.values
    if isinstance(value, _Bytes):
        return value.content
    if id(value) not in met:
        met[id(value)] = None  # a container that holds itself ends here
        met[id(value)] = _plain_container(value, met)
    return met[id(value)]


def _plain_container(value: object, met: dict[int, Plain]) -> Plain:
    if isinstance(value, list | tuple):
        return type(value)(_plain(entry, met) for entry in value)
    if isinstance(value, dict):
        return {_plain(key, met): _plain(entry, met) for key, entry in value.items()}
    raise DataError(f"holds a {type(value).__name__}; only arrays, bytes, text, numbers, lists and dicts are read")
