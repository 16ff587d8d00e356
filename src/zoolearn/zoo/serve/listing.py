"""Lists of tasks and members in pages, made once for each state of the zoo."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.serve.live_zoo import LiveZoo
from zoolearn.zoo.serve.messages import Member, Members, Tasks
from zoolearn.zoo.summary import describe_member, describe_task, describe_zoo

MOST_KEPT = 64  # pages
Item = TypeVar("Item")


class Listing:
    """The pages of one server."""

    def __init__(self, live: LiveZoo, name: str, *, learns: bool) -> None:
        self.live, self.name, self.learns = live, name, learns
        self.made: dict[object, bytes] = {}
        self.of: Index | None = None

    def tasks(self, search: str, first: int | None, count: int) -> bytes:
        """The tasks whose names contain a text, from `first` on; by default the newest."""
        return self._page(("tasks", search, first, count), lambda index: self._tasks(index, search, first, count))

    def members(self, first: int | None, count: int) -> bytes:
        """Members from `first` on; by default the newest."""
        return self._page(("members", first, count), lambda index: _members(index, first, count))

    def _page(self, key: object, make: Callable[[Index], bytes]) -> bytes:
        index = self.live.index
        if self.of is not index or len(self.made) >= MOST_KEPT:
            self.made, self.of = {}, index
        if key not in self.made:
            self.made[key] = make(index)
        return self.made[key]

    def _tasks(self, index: Index, search: str, first: int | None, count: int) -> bytes:
        words = search.casefold()
        names = [name for name in index.tasks if words in name.casefold()]
        start, shown = _part(names, first, count)
        entries = [index.tasks[name] for name in shown]
        described = [describe_task(index, entry, self.live.majority(entry)) for entry in entries]
        about = describe_zoo(self.name, index, described)
        page = Tasks(**about, learns=self.learns, total=len(names), first=start)
        return page.model_dump_json().encode()


def _members(index: Index, first: int | None, count: int) -> bytes:
    start, shown = _part(index.members, first, count)
    members = [Member(**describe_member(index, entry)) for entry in shown]
    page = Members(generation=index.generation, total=len(index.members), first=start, members=members)
    return page.model_dump_json().encode()


def _part(items: Sequence[Item], first: int | None, count: int) -> tuple[int, Sequence[Item]]:
    """The position of the first item on a page, and the items.

    >>> _part("abcde", None, 2), _part("abcde", 1, 2)
    ((3, 'de'), (1, 'bc'))
    """
    start = max(0, len(items) - count) if first is None else first
    return start, items[start : start + count]
