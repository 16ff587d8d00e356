"""Plain data from a file as the type that it should be, with an error that names the entry."""

import re
from typing import TypeVar

import msgspec

from zoolearn.errors import StoreError
from zoolearn.files import Json

Kind = TypeVar("Kind")


def decode(content: Json, kind: type[Kind], where: str, what: str) -> Kind:
    """What was read as this kind of thing, each entry of its type; an error names where it was read, the entry and its value.

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
