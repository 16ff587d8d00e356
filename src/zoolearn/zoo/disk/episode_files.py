"""The episodes of a zoo on disk: a table of contents, the records, and digests of their rows.

All three grow by a line an episode. The table is small and read whole; of the others, single lines are read on demand.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from zoolearn.errors import StoreError
from zoolearn.files import Json
from zoolearn.zoo.disk.arrivals import Arrival, Count, Stored
from zoolearn.zoo.disk.entries import Record
from zoolearn.zoo.disk.index_checks import check_record
from zoolearn.zoo.disk.journal import Body, Chain, Journal, Mark
from zoolearn.zoo.disk.lazy import LazyView
from zoolearn.zoo.disk.records import Contents, Entry, Records
from zoolearn.zoo.settings import ZooSettings


class Prints(Struct, frozen=True, array_like=True, gc=False):
    """Digests of the rows of an episode, 8 bytes each."""

    rows: bytes


class HeadState(Struct):
    """What the head of an index says of a zoo: its settings, not yet checked, and the ends of its journals."""

    generation: Count
    chosen: dict[str, Json]
    settings: dict[str, Json]
    episodes: Mark
    rows: Mark
    contents: Mark


class EpisodeFiles:
    """The episode files of one state of a zoo; `content` gives the bytes of a stored tensor."""

    def __init__(self, folder: Path, content: Callable[[Stored], bytes]) -> None:
        self.content = content
        self.records = Body(folder, "episodes", Record)
        self.rows = Body(folder, "rows", Prints)
        self.contents = Journal(folder, "contents", Entry)

    def read(self, head: HeadState, settings: ZooSettings) -> Records:
        """The episodes of a head, each checked when it is read."""
        self.contents.read(head.contents)
        return self._read(head.episodes, head.rows, settings)

    def _read(self, records: Mark, rows: Mark, settings: ZooSettings) -> Records:
        entries = self.contents.lines
        self.rows.read(rows, LazyView(len(entries), lambda place: entries[place].rows))
        known = self.records.lines
        lines = self.records.read(records, LazyView(len(entries), lambda place: entries[place].record))
        lines.reuse(known)
        contents, where = Contents(entries), str(lines.path)
        listed = Records(
            kept=len(lines), contents=contents
        )  # without the lines: two that keep each other are let go late
        lines.check = lambda record, place: check_record(listed, settings, record, place, where)
        return Records(lines, len(lines), contents=contents)

    def find_dropped(self, records: Records) -> set[str]:
        """The files that may no longer belong to the zoo once these are its episodes."""
        old = self.records.lines
        kept = records.kept if records.stored is old else 0
        pairs = zip_longest(map(old.decode, range(kept, len(old))), records[kept:])
        return set().union(*(was.files for was, now in pairs if was is not None and was != now))

    def write(self, records: Records, generation: int) -> Mapping[str, Mark]:
        """Writes episodes; they become valid with the returned marks."""
        episodes, lines = self.records.write(records, generation)
        rows, prints = self.rows.write(self._rows(records), generation)
        new = [*map(Entry, lines, prints, records.fresh.abouts)]
        contents = (
            Chain(self.contents.lines, records.kept, new) if records.stored is self.records.lines else Chain(new=new)
        )
        return {"episodes": episodes, "rows": rows, "contents": self.contents.write(contents, generation)}

    def commit(self, marks: Mapping[str, Mark], settings: ZooSettings) -> Records:
        """The written episodes, which are valid now."""
        self.contents.commit()
        return self._read(marks["episodes"], marks["rows"], settings)

    def _rows(self, records: Records) -> Chain[Prints]:
        """The digests of all rows; those of unchanged arrivals are reused."""
        known, old = self.rows.lines, self.records.lines
        if records.stored is old:
            return Chain(known, records.kept, [self._prints(record.arrival) for record in records.new])
        same = [place < len(old) and old[place].arrival == record.arrival for place, record in enumerate(records)]
        return Chain(
            new=[known[place] if same[place] else self._prints(records[place].arrival) for place in range(len(same))]
        )

    def _prints(self, arrival: Arrival | None) -> Prints:
        rows = [] if arrival is None else [rows for rows in (arrival.train, arrival.test) if rows is not None]
        return Prints(b"".join(self.content(each.digests) for each in rows))

    def are_rows_of(self, records: Records) -> bool:
        """Whether the digests match the stored rows."""
        return self.rows.lines.all() == [self._prints(record.arrival) for record in records]

    def tasks_with(self, records: Records, prints: NDArray[np.uint64]) -> list[str]:
        """The tasks that have some of these rows, by digest; only for writers."""
        known = self.rows.lines.all()
        if len(known) != len(records) or any(len(each.rows) % 8 for each in known):
            raise StoreError(f"{self.rows.lines.path} is not about the rows of this zoo; restore it from a copy")
        rows = np.frombuffer(b"".join(each.rows for each in known), np.uint64)
        ends = np.cumsum([len(each.rows) // 8 for each in known])
        found = np.unique(np.searchsorted(ends, np.flatnonzero(np.isin(rows, prints)), side="right")).tolist()
        names = (records.about(place).task for place in found)
        return [*dict.fromkeys(name for name in names if name is not None)]

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return sum(each.mark.bytes for each in (self.records, self.rows, self.contents) if each.mark is not None)

    def sweep(self, keep: Sequence[str] = ()) -> None:
        """Deletes outdated files, except those to `keep`."""
        for each in (self.records, self.rows, self.contents):
            each.sweep(keep)
