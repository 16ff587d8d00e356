"""Tables of things by name, and the names of things in tables."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

Thing = TypeVar("Thing")


class Named(Mapping[str, Thing]):
    """Things by name, each imported when it is asked for: a run of one method does not load the other ones.

    >>> Named({"isolated": "methods.isolated.Isolated"})["isolated"].__name__
    'Isolated'
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = dict(places)

    def __getitem__(self, name: str) -> Thing:
        module, _, thing = self.places[name].rpartition(".")
        found: Thing = getattr(import_module(f"zoolearn.{module}"), thing)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def registered_name(self, thing: Any) -> str | None:
        """The name of a thing, None if it is not in the table; nothing is imported."""
        place = f"{thing.__module__}.{getattr(thing, '__qualname__', '')}".removeprefix("zoolearn.")
        return next((name for name, other in self.places.items() if other == place), None)


def registered_name(function: Callable[..., Any], table: Mapping[str, Callable[..., Any]]) -> str:
    """The name of a function in its table, or its own."""
    own: str = getattr(function, "__name__", type(function).__name__)
    if isinstance(table, Named):
        return table.registered_name(function) or own
    return next((name for name, ours in table.items() if ours is function), own)
