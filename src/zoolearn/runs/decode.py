"""Checked decoding and encoding of plain data, with errors that name the entry."""

import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TypeVar

import msgspec

from zoolearn.errors import SettingsError, StoreError
from zoolearn.files import Json

Kind = TypeVar("Kind")


def decode(content: Json, kind: type[Kind], where: str, what: str) -> Kind:
    """Decodes plain data as a type; an error names where it was read, the entry and its value.

    >>> decode([1, "2"], list[int], "numbers.json", "a list of numbers")
    Traceback (most recent call last):
    zoolearn.errors.StoreError: numbers.json is not a list of numbers: [1] is '2'; Expected `int`, got `str`
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`")
        steps = re.findall(r"\.(\w+)|\[(\d+)\]", path)
        for name, place in steps if "[...]" not in path else ():
            content = content[name] if name else content[int(place)]
        entry = f"{path.removeprefix('.')} is {content!r}; " if steps and "[...]" not in path else ""
        raise StoreError(f"{where} is not {what}: {entry}{reason}") from error


def plain(value: Json, name: str) -> Json:
    """The value as JSON gives it back (tuples as lists, numbers as Python's); an error names what JSON cannot hold.

    >>> plain({"classes": (1, 2)}, "settings")
    {'classes': [1, 2]}
    >>> plain({"recipe": {"device": 1j}}, "settings")
    Traceback (most recent call last):
    zoolearn.errors.SettingsError: settings.recipe.device is 1j, which JSON cannot hold; record its name or number
    """
    if value is None or isinstance(value, str | bool | int) or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(entry, f"{name}[{place}]") for place, entry in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(entry, f"{name}.{key}") for key, entry in value.items()}
    raise SettingsError(f"{name} is {value!r}, which JSON cannot hold; record its name or number")
