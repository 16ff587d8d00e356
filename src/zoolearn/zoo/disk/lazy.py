"""Collections whose values are read on demand, so that a learner of a large zoo holds only what it uses."""

from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence, Sequence
from copy import copy
from typing import Any, TypeVar

Value = TypeVar("Value")


class LazyDict(MutableMapping[str, Value]):
    """Names known from the start; each value is read once.

    >>> tasks = LazyDict(["birds", "cars"], str.upper)
    >>> len(tasks), "cars" in tasks, tasks["birds"]
    (2, True, 'BIRDS')
    """

    def __init__(self, names: Iterable[str], read: Callable[[str], Value]) -> None:
        self.reads: dict[str, Callable[[str], Value] | None] = dict.fromkeys(names, read)
        self.values_read: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        read = self.reads[name]
        if read is not None:
            self[name] = read(name)
        return self.values_read[name]

    def __setitem__(self, name: str, value: Value) -> None:
        self.values_read[name] = value
        self.reads[name] = None  # only now: another thread may look meanwhile

    def __delitem__(self, name: str) -> None:
        del self.reads[name]
        self.values_read.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self.reads

    def __iter__(self) -> Iterator[str]:
        return iter(self.reads)

    def __len__(self) -> int:
        return len(self.reads)

    def copy(self) -> "LazyDict[Value]":
        made = copy(self)
        made.reads, made.values_read = self.reads.copy(), self.values_read.copy()
        return made


class LazyView(Sequence[Value]):
    """A sequence of `count` values, each read on access.

    >>> LazyView(3, str)[-1], [*LazyView(3, str)[1:]]
    ('2', ['1', '2'])
    """

    def __init__(self, count: int, read: Callable[[int], Any]) -> None:
        self.places, self.read = range(count), read

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        found = self.places[place]
        return [self.read(one) for one in found] if isinstance(found, range) else self.read(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


class LazyList(MutableSequence[Value]):
    """A list of functions that make its values; each is called on access, and its value not kept.

    >>> LazyList([lambda: "first", lambda: "last"])[-1]
    'last'
    """

    def __init__(self, reads: Iterable[Callable[[], Value]]) -> None:
        self.reads = list(reads)

    def __getitem__(self, place: Any) -> Any:
        found = self.reads[place]
        return [read() for read in found] if isinstance(found, list) else found()

    def __setitem__(self, place: Any, value: Any) -> None:
        self.reads[place] = lambda: value

    def __delitem__(self, place: Any) -> None:
        del self.reads[place]

    def __len__(self) -> int:
        return len(self.reads)

    def insert(self, place: int, value: Value) -> None:
        """Puts a value before this place."""
        self.reads.insert(place, lambda: value)

    def copy(self) -> "LazyList[Value]":
        return LazyList(self.reads)
