"""What arrived of a task, episode by episode: rows, new classes, and corrections of earlier rows.

Entries never change: a task as of an episode is what had arrived by then, with its classes in the order of arrival. So
a label, the position of a class in that order, keeps its meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Annotated, Literal

from msgspec import Meta, Struct

from zoolearn.methods.ensemble import share_seen
from zoolearn.zoo.disk.journal import Digest
from zoolearn.zoo.settings import Name

SIZES = {"uint8": 1, "int16": 2, "float32": 4, "int64": 8}

Dtype = Literal["uint8", "int16", "float32", "int64"]
Side = Literal["train", "test"]
SIDES: tuple[Side, Side] = ("train", "test")
Count = Annotated[int, Meta(ge=0)]
Number = Annotated[int, Meta(ge=1)]


class Stored(Struct, frozen=True, gc=False):
    """A tensor in the folder: its file is named by the digest of its bytes."""

    digest: Digest
    dtype: Dtype
    shape: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=4)]

    @property
    def bytes(self) -> int:
        """The exact size of its file."""
        return prod(self.shape) * SIZES[self.dtype]


class Rows(Struct, frozen=True, gc=False, omit_defaults=True):
    """Stored examples: inputs, labels and, if they came from files, their names there (a JSON list).

    Of features, `ids` tell what each was made of: the sha256 of its file, or of its pixels. `digests` identify
    copies without reading rows.
    """

    x: Stored
    y: Stored
    digests: Stored
    names: Stored | None = None
    ids: Stored | None = None

    @property
    def count(self) -> int:
        return self.x.shape[0]

    @property
    def stored(self) -> list[Stored]:
        return [part for part in (self.x, self.y, self.digests, self.names, self.ids) if part]


class Fixes(Struct, frozen=True, gc=False):
    """Corrections of earlier rows: pairs of a row's number and its new label, -1 for a deleted row."""

    pairs: Stored
    deleted: Count


class Arrival(Struct, frozen=True, gc=False, omit_defaults=True):
    """What an episode brought to a task: classes, training rows (their counts by class, and those kept), held-out rows.

    `votes` is the file of votes by the older members `asked` on its held-out rows. `statistics` are of all rows of
    the task so far, if not all are kept: of the features of the member `seen_by`.
    """

    task: Name
    episode: Number
    classes: tuple[Name, ...]
    augment: tuple[Name, ...]
    counts: Mapping[Name, int]  # negative where a correction removes rows
    train: Rows | None
    test: Rows | None
    fix_train: Fixes | None = None
    fix_test: Fixes | None = None
    asked: tuple[Number, ...] = ()
    votes: Digest | None = None
    statistics: Digest | None = None
    seen_by: Number | None = None  # None: the member that the task was first learned by

    def rows(self, side: Side) -> Rows | None:
        return self.train if side == "train" else self.test

    def fixes(self, side: Side) -> Fixes | None:
        """Its corrections of earlier rows on one side."""
        return self.fix_train if side == "train" else self.fix_test

    @property
    def corrects(self) -> bool:
        """Whether it corrects earlier rows instead of bringing new ones."""
        return self.fix_train is not None or self.fix_test is not None

    @property
    def stored(self) -> list[Stored]:
        rows = [part for rows in (self.train, self.test) if rows for part in rows.stored]
        return rows + [fixes.pairs for fixes in (self.fix_train, self.fix_test) if fixes]

    @property
    def files(self) -> set[str]:
        """The names, relative to the folder, of its files."""
        data = {f"data/{part.digest}.bin" for part in self.stored}
        beside = {"votes": self.votes, "statistics": self.statistics}
        return data | {f"{place}/{digest}.safetensors" for place, digest in beside.items() if digest is not None}


@dataclass(frozen=True)
class TaskEntry:
    """A learned task: all that has arrived of it."""

    name: str
    arrivals: tuple[Arrival, ...]

    @property
    def episode(self) -> int:
        """The episode in which it was first learned."""
        return self.arrivals[0].episode

    @property
    def latest(self) -> int:
        """The episode in which it last grew."""
        return self.arrivals[-1].episode

    @property
    def last_class(self) -> int:
        """The episode of its newest class; members of earlier ones do not know all classes."""
        return next(arrival.episode for arrival in reversed(self.arrivals) if arrival.classes)

    @property
    def augment(self) -> tuple[str, ...]:
        """How its training images may be varied."""
        return self.arrivals[0].augment

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """In the order of arrival."""
        return tuple(name for arrival in self.arrivals for name in arrival.classes)

    @cached_property
    def arrived(self) -> Mapping[str, int]:
        """How many training rows of each class have arrived, kept or not."""
        return {name: sum(arrival.counts.get(name, 0) for arrival in self.arrivals) for name in self.classes}

    @property
    def keeps_rows(self) -> bool:
        """Whether training rows are kept."""
        return any(arrival.train for arrival in self.arrivals)

    @property
    def counted(self) -> Arrival:
        """The last arrival with training rows or corrections of them; its statistics are those of all rows."""
        found = (arrival for arrival in reversed(self.arrivals) if arrival.counts or arrival.fix_train)
        return next(found, self.arrivals[0])

    @property
    def statistics(self) -> Digest | None:
        """The file of the statistics of all its rows; None if none are kept."""
        return self.counted.statistics

    @cached_property
    def rows_kept(self) -> int:
        return self._rows("train")

    @cached_property
    def rows_held_out(self) -> int:
        return self._rows("test")

    def _rows(self, side: Side) -> int:
        rows = sum(part.count for arrival in self.arrivals if (part := arrival.rows(side)))
        return rows - sum(fixes.deleted for arrival in self.arrivals if (fixes := arrival.fixes(side)))

    @property
    def stored(self) -> list[Stored]:
        return [part for arrival in self.arrivals for part in arrival.stored]

    @property
    def problem(self) -> str | None:
        """What is inconsistent in its arrivals; None if nothing."""
        if len({*self.classes}) != len(self.classes):
            return "a class is named twice"
        if len(self.arrivals[0].classes) < 2 or self.arrivals[0].test is None:
            return "a task begins without classes or rows held out"
        if self.keeps_rows and any(part.train is None and part.counts for part in self.arrivals if part.test):
            return "a task keeps rows of some episodes only"
        if self.rows_held_out < 1 or (self.keeps_rows and self.rows_kept < 1) or min(self.arrived.values()) < 0:
            return "a task has no rows"
        known: set[str] = set()
        for arrival in self.arrivals:
            known |= {*arrival.classes}
            if not known >= arrival.counts.keys():
                return "rows of a class arrived that is not there"
        return None

    def as_of(self, episode: int) -> "TaskEntry":
        """The task as it was after an episode."""
        if self.latest <= episode:
            return self
        return TaskEntry(self.name, tuple(arrival for arrival in self.arrivals if arrival.episode <= episode))

    def arrivals_since(self, episode: int) -> tuple[Arrival, ...]:
        """What has arrived after an episode."""
        return tuple(arrival for arrival in self.arrivals if arrival.episode > episode)

    def with_arrival(self, arrival: Arrival) -> "TaskEntry":
        """The task with one more arrival."""
        return TaskEntry(self.name, (*self.arrivals, arrival))

    def rows_seen(self, episode: int) -> tuple[float, ...]:
        """How many rows of each class had arrived by an episode and are still unchanged; which class lost some is not known."""
        gone = sum(arrival.fix_train.pairs.shape[0] for arrival in self.arrivals_since(episode) if arrival.fix_train)
        then = self.as_of(episode).arrived.values()
        return tuple(then) if not gone else tuple(rows * max(0.0, 1 - gone / sum(then)) for rows in then)

    def share_seen(self, episode: int) -> float:
        """`rows_seen` as a share of all that have arrived, as it weighs the vote of a member of that episode."""
        return share_seen(self.rows_seen(episode), tuple(self.arrived.values()))
