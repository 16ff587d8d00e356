"""The episodes of a zoo, with a table of contents by task and member, so that only needed ones are read."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from zoolearn.errors import StoreError
from zoolearn.words import is_printable
from zoolearn.zoo.disk.arrivals import Number
from zoolearn.zoo.disk.entries import Record
from zoolearn.zoo.disk.journal import Chain, Line, Lines
from zoolearn.zoo.settings import Name

BEGINNING = 8  # characters of a file's name that tell most files apart; as one number they are compared quickly


class About(Struct, frozen=True, array_like=True, gc=False):
    """What an episode is about: its task, and whether training rows of it are kept.

    `members` were made in it; `losses` are those of the tasks that it measured; `others` are further tasks that its
    members vote on; `files` has the first characters of its file names.
    """

    task: Name | None
    is_kept: bool
    members: tuple[Number, ...]
    losses: Mapping[Name, float | None]
    others: tuple[Name, ...]
    files: str
    remade: bool

    @classmethod
    def of(cls, record: Record) -> "About":
        """What a record is about."""
        arrival, episode = record.arrival, record.episode
        measures = {} if episode is None else {**episode.measures, **episode.since}
        names = dict.fromkeys(name for member in record.members for name in member.share)
        return cls(
            None if arrival is None else arrival.task,
            arrival is not None and arrival.train is not None,
            tuple(member.number for member in record.members),
            {name: measure.loss for name, measure in measures.items()},
            tuple(name for name in names if name not in measures),
            "".join(sorted(_shorten(name) for name in record.files)),
            episode is not None and episode.remade,
        )


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """A line of the table of contents: the lines of an episode in the other files, and what it is about."""

    record: Line
    rows: Line
    about: About


class Contents:
    """What some episodes are about, by task and by member."""

    def __init__(self, entries: "Sequence[About] | Lines[Entry]") -> None:
        self.entries = entries

    def __getitem__(self, place: int) -> About:
        return self.entries[place].about if isinstance(self.entries, Lines) else self.entries[place]

    @cached_property
    def abouts(self) -> Sequence[About]:
        """What each is about."""
        if not isinstance(self.entries, Lines):
            return self.entries
        abouts = [entry.about for entry in self.entries.all()]
        if not is_printable("".join([about.task or "" for about in abouts])):
            raise StoreError(
                f"{self.entries.path}: a text is not printable; the file was altered, restore it from a copy"
            )
        return abouts

    @cached_property
    def arrivals(self) -> dict[str, list[int]]:
        """The places of the episodes in which something arrived of each task."""
        places: dict[str, list[int]] = {}
        for place, about in enumerate(self.abouts):
            if about.task is not None:
                places.setdefault(about.task, []).append(place)
        return places

    @cached_property
    def answers(self) -> dict[str, list[int]]:
        """The places of the episodes that changed the answers for each task."""
        places: dict[str, list[int]] = {}
        for place, about in enumerate(self.abouts):
            for name in chain(about.losses, about.others):
                places.setdefault(name, []).append(place)
        return places

    @cached_property
    def members(self) -> dict[int, int]:
        """The place of the episode of which each member came."""
        return {number: place for place, about in enumerate(self.abouts) for number in about.members}


class Records(Chain[Record]):
    """The episodes that are stored, or the first of them, and new ones behind them; the last may still be open."""

    def __init__(
        self,
        stored: Lines[Record] | None = None,
        kept: int = 0,
        new: Sequence[Record] = (),
        contents: Contents | None = None,
    ) -> None:
        super().__init__(stored, kept, new)
        self.contents = contents or Contents(())

    @property
    def where(self) -> str:
        """The file that they were read from."""
        return "the new index" if self.stored is None else str(self.stored.path)

    def make_error(self, problem: str) -> StoreError:
        return StoreError(f"{self.where}: {problem}; the file was altered, restore it from a copy")

    def truncate(self, count: int) -> "Records":
        """The first `count` episodes."""
        shorter = super().truncate(count)
        return Records(self.stored, shorter.kept, shorter.new, self.contents)

    def append(self, *items: Record) -> "Records":
        """With further episodes."""
        return Records(self.stored, self.kept, (*self.new, *items), self.contents)

    @cached_property
    def fresh(self) -> Contents:
        """The table of contents of the new ones."""
        return Contents([About.of(record) for record in self.new])

    @cached_property
    def abouts(self) -> list[About]:
        """What each is about."""
        return [*self.contents.abouts[: self.kept], *self.fresh.abouts]

    def about(self, place: int) -> About:
        """What one of them is about."""
        return self.contents[place] if place < self.kept else self.fresh[place - self.kept]

    @property
    def last_arrival(self) -> int | None:
        """The position of the last episode with an arrival that is still there."""
        return next((place for place in reversed(range(len(self))) if self.about(place).task is not None), None)

    @property
    def undone(self) -> list[About]:
        """What the episodes are about that an undo takes back: the last with an arrival, and those after it."""
        return [] if (last := self.last_arrival) is None else [*map(self.about, range(last, len(self)))]

    def arrivals(self, task: str) -> list[int]:
        """The positions of the episodes with arrivals of a task."""
        return [*self._places(self.contents.arrivals.get(task, ()), self.fresh.arrivals.get(task, ()))]

    def answers(self, task: str) -> list[int]:
        """The positions of the episodes that changed the answers for a task."""
        return [*self._places(self.contents.answers.get(task, ()), self.fresh.answers.get(task, ()))]

    def first(self, task: str) -> int:
        """The position of the episode in which a task was first met; the end, if it never was."""
        place = self.contents.arrivals.get(task, (self.kept,))[0]
        return place if place < self.kept else self.kept + self.fresh.arrivals.get(task, (len(self.new),))[0]

    def _places(self, stored: Sequence[int], fresh: Sequence[int]) -> Iterator[int]:
        return chain((place for place in stored if place < self.kept), (self.kept + place for place in fresh))

    @cached_property
    def tasks(self) -> list[str]:
        """The names of all tasks, in the order they were learned."""
        known = [name for name, places in self.contents.arrivals.items() if places[0] < self.kept]
        return [*dict.fromkeys(chain(known, self.fresh.arrivals))]

    @cached_property
    def members(self) -> list[int]:
        """The numbers of all members, oldest first."""
        return [number for about in self.abouts for number in about.members]

    def place_of(self, member: int) -> int:
        """The position of the episode of a member."""
        place = self.contents.members.get(member, self.kept)
        return place if place < self.kept else self.kept + self.fresh.members[member]

    @property
    def losses(self) -> dict[str, float | None]:
        """The loss of every task as it was last measured."""
        found: dict[str, float | None] = {}
        for about in self.abouts:
            found |= about.losses
        return found

    @property
    def kept_tasks(self) -> list[str]:
        """The names of tasks of which there are rows to train on, in the order they were learned."""
        kept = {about.task for about in self.abouts if about.is_kept}
        return [name for name in self.tasks if name in kept]

    def names_file(self, name: str) -> bool:
        """Whether a file, by its name relative to the folder, belongs to one of them."""
        if name in self._new_files or self.stored is None or not isinstance(self.contents.entries, Lines):
            return name in self._new_files
        words, places = self._beginnings
        found = places[words == np.frombuffer(_shorten(name).encode(), words.dtype)]
        return any(name in self.stored.decode(place).files for place in found.tolist())

    @cached_property
    def _beginnings(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Those of all stored files, and their episodes: the last text in each line of the contents, which is not decoded."""
        assert isinstance(self.contents.entries, Lines)
        data, ends = self.contents.entries.data, self.contents.entries.ends(self.kept)
        quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == ord('"'))
        last = np.searchsorted(quotes, ends) - 1
        starts, stops = quotes[last - 1] + 1, quotes[last]
        text = b"".join(data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True))
        return np.frombuffer(text, np.uint64), np.repeat(np.arange(len(ends)), (stops - starts) // BEGINNING)

    @cached_property
    def _new_files(self) -> set[str]:
        return set().union(*(record.files for record in self.new))


def _shorten(name: str) -> str:
    return name.partition("/")[2][:BEGINNING]
