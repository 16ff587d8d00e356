"""JSON read without trust: every value is asked for by kind and range, and a wrong one is named by its place."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from zoolearn.errors import StoreError
from zoolearn.files import Json

DIGEST = re.compile(r"[0-9a-f]{64}")
LONGEST_NAME = 200


@dataclass(frozen=True)
class Reader:
    """A value out of a JSON file, and where it stands there.

    >>> record = Reader({"episode": 3, "task": "birds"}, "zoo.json")
    >>> record["episode"].whole(1, 9), record["task"].name()
    (3, 'birds')
    >>> record["episode"].name()
    Traceback (most recent call last):
    zoolearn.errors.StoreError: zoo.json.episode is 3, not a name; the file is damaged or was not written by zoolearn
    """

    value: Json
    place: str

    def __getitem__(self, key: str) -> "Reader":
        if not isinstance(self.value, dict) or key not in self.value:
            raise StoreError(f"{self.place} lacks {key!r}; the file is damaged or was not written by zoolearn")
        return Reader(self.value[key], f"{self.place}.{key}")

    @property
    def is_null(self) -> bool:
        return self.value is None

    def items(self, most: int = 100_000) -> list["Reader"]:
        if not isinstance(self.value, list) or len(self.value) > most:
            self._refuse(f"a list of up to {most} entries")
        return [Reader(value, f"{self.place}[{number}]") for number, value in enumerate(self.value)]

    def entries(self, most: int = 100_000) -> Iterator[tuple[str, "Reader"]]:
        if not isinstance(self.value, dict) or len(self.value) > most:
            self._refuse(f"an object of up to {most} entries")
        for key, value in self.value.items():
            yield Reader(key, f"a key of {self.place}").name(), Reader(value, f"{self.place}[{key!r}]")

    def name(self) -> str:
        """A short text that is safe to print: no control characters."""
        return self.text(LONGEST_NAME, "a name")

    def text(self, longest: int = 10_000, kind: str = "a text") -> str:
        """A text that is safe to print."""
        if not isinstance(self.value, str) or not self.value.isprintable() or len(self.value) > longest:
            self._refuse(kind)
        return str(self.value)

    def digest(self) -> str:
        if not isinstance(self.value, str) or not DIGEST.fullmatch(self.value):
            self._refuse("a sha256")
        return str(self.value)

    def whole(self, low: int, high: int) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            self._refuse(f"a whole number from {low} to {high}")
        return int(self.value)

    def number(self, low: float = -math.inf, high: float = math.inf) -> float:
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not is_number or not math.isfinite(self.value) or not low <= self.value <= high:
            self._refuse(f"a number from {low} to {high}")
        return float(self.value)

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self._refuse("true or false")
        return bool(self.value)

    def _refuse(self, wanted: str) -> None:
        shown = repr(self.value)
        shown = shown if len(shown) <= 60 else shown[:60] + "..."
        raise StoreError(f"{self.place} is {shown}, not {wanted}; the file is damaged or was not written by zoolearn")
