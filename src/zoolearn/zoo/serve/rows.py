"""Turns the body of a question into rows: JSON arrays, raw bytes, image files, or texts."""

import io
import json
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import unknown_name
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.inputs.cells import LARGEST
from zoolearn.zoo.inputs.pictures import Undecodable, decode_picture, pixel_count
from zoolearn.zoo.serve.problems import Problem

Rows = NDArray[np.uint8] | NDArray[np.float32] | NDArray[np.int16]  # the last: features of texts

KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
BEYOND = f"a number beyond {LARGEST:g}"


def describe_rows(shape: Shape) -> str:
    """What a zoo takes, in words.

    >>> describe_rows((3, 32, 32))
    'rows of 3x32x32 whole numbers from 0 to 255'
    """
    size = "x".join(map(str, shape))
    return f"rows of {size} whole numbers from 0 to 255" if len(shape) == 3 else f"rows of {size} finite numbers"


def from_json(body: bytes, shape: Shape, most: int, columns: Sequence[str] = ()) -> Rows:
    """`{"rows": [...]}`, nested by shape; or an object for each row, if the zoo knows its column names.

    >>> from_json(b'{"rows": [[1, 2.5], [3, 4]]}', (2,), most=8).tolist()
    [[1.0, 2.5], [3.0, 4.0]]
    >>> from_json(b'{"rows": [{"b": 1, "a": 2.5}]}', (2,), most=8, columns=("a", "b")).tolist()
    [[2.5, 1.0]]
    """
    given = _read_list(body, "rows", most)
    if any(isinstance(row, dict) for row in given):
        given = [_by_name(row, place, columns, shape) for place, row in enumerate(given, start=1)]
    return _check_rows(_numbers(given, shape, columns), shape)


def texts_from_json(body: bytes, most: int) -> list[str]:
    """`{"texts": [...]}`.

    >>> texts_from_json(b'{"texts": ["two words"]}', most=8)
    ['two words']
    """
    texts = _read_list(body, "texts", most)
    other = next((place for place, text in enumerate(texts, start=1) if not isinstance(text, str)), None)
    if other is not None:
        raise Problem(422, f"text {other} is no string; send each text in quotes")
    return texts


def _read_list(body: bytes, word: str, most: int) -> list[Any]:
    """The list under the only key of a body."""
    try:
        content = json.loads(body.decode(), parse_constant=_not_finite)
    except (ValueError, RecursionError) as error:
        raise Problem(422, f'the body is not the JSON that is wanted ({error}); send {{"{word}": [...]}}') from error
    if not isinstance(content, dict) or content.keys() != {word} or not isinstance(content[word], list):
        raise Problem(422, f'the body is not of the form {{"{word}": [...]}}; send that, with nothing beside it')
    _check_count(len(content[word]), most)
    found: list[Any] = content[word]
    return found


def _by_name(row: Any, place: int, columns: Sequence[str], shape: Shape) -> list[Any]:
    """The values of a row given by names, in the order of the zoo's columns."""
    if not columns:
        raise _other_rows("named values, but the zoo was taught without names of columns", shape)
    if not isinstance(row, dict):
        raise Problem(422, f"row {place} is no object, but others are; name the columns of all rows, or of none")
    for name in row:
        if name not in columns:
            raise Problem(422, f"row {place}: {unknown_name('column', name[:80], columns)}")
    missing = [name for name in columns if name not in row]
    if missing:
        raise Problem(422, f"row {place} lacks the column {missing[0]!r}; this zoo takes {', '.join(columns)}")
    return [row[name] for name in columns]


def _numbers(given: list[Any], shape: Shape, columns: Sequence[str]) -> NDArray[Any]:
    """Numbers in lists as an array.

    Types are looked at before: numpy would take true for 1, and make room in every place for the longest of texts.
    """
    values, sizes = given, [len(given)]
    kinds = {*map(type, values)}
    while kinds == {list} and len(sizes) <= len(shape):
        lengths = {*map(len, values)}
        if len(lengths) > 1:
            place = next(place for place, value in enumerate(values) if len(value) != len(values[0]))
            where = _place(place, sizes[1:], columns)
            raise _other_rows(
                f"lists of different lengths ({len(values[0])}, and {len(values[place])} in {where})", shape
            )
        sizes += lengths
        values = list(chain.from_iterable(values))
        kinds = {*map(type, values)}
    wanted = {list} if list in kinds and len(sizes) <= len(shape) else {int, float}
    if strange := kinds - wanted:
        place = next(place for place, value in enumerate(values) if type(value) in strange)
        instead = f"{KINDS[type(values[place])]} instead of {'a list' if list in wanted else 'a number'}"
        raise _other_rows(f"{instead} in {_place(place, sizes[1:], columns)}", shape)
    try:
        return np.array(values, np.float64 if float in kinds else np.int64).reshape(sizes)
    except OverflowError as error:
        raise _other_rows(BEYOND, shape) from error


def _place(place: int, sizes: Sequence[int], columns: Sequence[str]) -> str:
    """The place of a value among those of all rows, in words; `sizes` are those of a row.

    >>> _place(5, [3], ()), _place(5, [3], ("a", "b", "c")), _place(5, [], ())
    ('row 2, value 3', "row 2, column 'c'", 'row 6')
    """
    row, value = divmod(place, prod(sizes))
    if not sizes:
        return f"row {row + 1}"
    return f"row {row + 1}, {f'column {columns[value]!r}' if [*sizes] == [len(columns)] else f'value {value + 1}'}"


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}")


def _check_rows(rows: NDArray[Any], shape: Shape) -> Rows:
    if rows.ndim == 3 and len(shape) == 3 and shape[0] == 1:
        rows = rows[:, None]
    if rows.shape[1:] != shape:
        raise _other_rows(f"{len(rows)} rows of {'x'.join(map(str, rows.shape[1:])) or 'nothing'}", shape)
    if rows.dtype == np.uint8 and len(shape) == 3:
        return rows
    if len(shape) == 3:
        if not bool(((rows >= 0) & (rows <= 255)).all()) or (rows.dtype.kind == "f" and bool((rows % 1).any())):
            raise _other_rows("values that are no pixels", shape)
        return rows.astype(np.uint8)
    with np.errstate(over="ignore"):
        features = rows.astype(np.float32, copy=False)
    if not bool((np.abs(features) <= LARGEST).all()):  # False for NaN too
        raise _other_rows(f"NaN, an infinity, or {BEYOND}", shape)
    return features


def from_raw(body: bytes, shape: Shape, most: int) -> Rows:
    """Rows one after the other: pixels in uint8, features in little-endian float32.

    >>> from_raw(bytes(8), (2,), most=8).tolist()
    [[0.0, 0.0]]
    """
    dtype = np.dtype(np.uint8 if len(shape) == 3 else "<f4")
    size = prod(shape) * dtype.itemsize
    if not body or len(body) % size:
        raise Problem(
            422, f"the body has {len(body):,} bytes; a row has {size:,} ({dtype.name}), send a whole number of rows"
        )
    _check_count(len(body) // size, most)
    return _check_rows(np.frombuffer(body, dtype).reshape(-1, *shape), shape)


def from_images(files: Sequence[tuple[str, bytes]], shape: Shape, most: int, most_pixels: int) -> Rows:
    """Image files with their names, decoded as for learning."""
    if len(shape) != 3:
        raise Problem(415, f"this zoo takes no images; send {describe_rows(shape)} as JSON")
    _check_count(len(files), most)
    rows = np.empty((len(files), *shape), np.uint8)
    pixels = 0
    for place, (name, content) in enumerate(files):
        try:
            pixels += pixel_count(io.BytesIO(content))
            if pixels > most_pixels:
                raise Problem(
                    413,
                    f"the images up to {name[:80]!r} have {pixels:,} pixels, more than {most_pixels:,}; send smaller ones, or "
                    "fewer at a time",
                )
            rows[place] = decode_picture(io.BytesIO(content), shape)
        except Undecodable as error:
            raise Problem(422, f"image {place + 1}, {name[:80]!r}: {error}; send PNG, JPEG or the like") from error
    return rows


def _check_count(count: int, most: int) -> None:
    if not count:
        raise Problem(422, "there are no rows; send at least one")
    if count > most:
        raise Problem(413, f"there are {count:,} rows; send at most {most:,} at a time")


def _other_rows(found: str, shape: Shape) -> Problem:
    return Problem(422, f"the body holds {found}; this zoo takes {describe_rows(shape)}")
