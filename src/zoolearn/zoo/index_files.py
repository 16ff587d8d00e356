"""The index of a zoo on the disk: a small head, which is replaced whole, and journals, which grow by a line an episode.

Why not SQLite: its file has no checksums, keeps deleted rows in free pages and in journals of its own, and must be locked
to be read, which mounts that are shared or read-only may not allow. So a table of contents says which episodes are about
which task, and only those are decoded; reading the bytes takes 2 microseconds an episode.
"""

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from zoolearn.errors import StoreError
from zoolearn.files import Json, load_json, save_json
from zoolearn.zoo.arrivals import Arrival, Stored
from zoolearn.zoo.entries import LogEntry, Record
from zoolearn.zoo.index import Index
from zoolearn.zoo.index_checks import check_index, check_printable, check_record
from zoolearn.zoo.journal import Body, Chain, Journal, Line, Mark
from zoolearn.zoo.lazy import LazyView
from zoolearn.zoo.reader import Reader
from zoolearn.zoo.records import Contents, Entry, Records
from zoolearn.zoo.settings import ZooSettings

FORMAT = 4
HEAD, JOURNALS = "zoo.json", "index"
LARGEST_HEAD = 256 << 20


class Prints(Struct, frozen=True, array_like=True, gc=False):
    """What the rows that came in an episode are known again by, 8 bytes each."""

    rows: bytes


class IndexFiles:
    """The index of one folder; what was read before is not read again."""

    def __init__(self, folder: Path, content: Callable[[Stored], bytes]) -> None:
        self.folder, self.head, self.content = folder, folder / HEAD, content
        self.episodes = Body(folder / JOURNALS, "episodes", Record)
        self.rows = Body(folder / JOURNALS, "rows", Prints)
        self.contents = Journal(folder / JOURNALS, "contents", Entry)
        self.log = Journal(folder / JOURNALS, "log", LogEntry)
        self.known: tuple[Mapping[str, Json], Index] | None = None

    @property
    def journals(self) -> tuple[Body[Record], Body[Prints], Journal[Entry], Journal[LogEntry]]:
        """All of them."""
        return self.episodes, self.rows, self.contents, self.log

    def read(self) -> Index:
        """The index as it is now; needs no lock, since the head is only ever replaced whole."""
        while True:
            head = self._head()
            if self.known is None or self.known[0] != head:
                try:
                    self.known = head, self._index(head)
                except StoreError:
                    if self._head() == head:
                        raise
                    continue  # it changed under our hands
            return self.known[1]

    def read_log(self) -> Sequence[LogEntry]:
        """What was done to the zoo, without a look at what it is."""
        while True:
            head = self._head()
            try:
                return self._log(Reader(dict(head), str(self.head)))
            except StoreError:
                if self._head() == head:
                    raise

    def _head(self) -> dict[str, Json]:
        facts = self.head.lstat()
        if not stat.S_ISREG(facts.st_mode):
            raise StoreError(
                f"{self.head} is a link or no plain file; a zoo has only plain files, restore it from a copy"
            )
        if facts.st_size > LARGEST_HEAD:
            raise StoreError(f"{self.head} has {facts.st_size:,} bytes, more than any zoo's head")
        head = load_json(self.head)
        if head.get("format") != FORMAT:
            raise StoreError(
                f"{self.head} has format {head.get('format')!r}, this zoolearn reads format {FORMAT}; use the version that "
                "wrote it"
            )
        return head

    def _index(self, head: Mapping[str, Json]) -> Index:
        record = Reader(dict(head), str(self.head))
        settings = ZooSettings.read(record["settings"])
        return Index(
            ZooSettings.read(record["chosen"]),
            settings,
            record["generation"].whole(0, 1 << 62),
            self._records(record, settings),
            self._log(record),
        )

    def _records(self, record: Reader, settings: ZooSettings) -> Records:
        self.contents.read(_mark(record["contents"]))
        return self._bodies(_mark(record["episodes"]), _mark(record["rows"]), settings)

    def _bodies(self, episodes: Mark, rows: Mark, settings: ZooSettings) -> Records:
        """The episodes as the table of contents has them, each checked when it is asked for."""
        entries = self.contents.lines
        self.rows.read(rows, LazyView(len(entries), lambda place: entries[place].rows))
        lines = self.episodes.read(episodes, LazyView(len(entries), lambda place: entries[place].record))
        if len(lines.data) < episodes.bytes:  # read at once: what is asked for later is of this very state
            raise StoreError(f"{lines.path} was cut short; restore it from a copy")
        records = Records(lines, len(lines), contents=Contents(entries))
        lines.check = lambda one, place: check_record(records, settings, one, place, str(lines.path))
        return records

    def _log(self, record: Reader) -> Chain[LogEntry]:
        lines = self.log.read(_mark(record["log"]))
        lines.check = lambda entry, place: check_printable(entry, str(lines.path))
        return Chain(lines, len(lines))

    def check_rows(self, index: Index) -> None:
        """Refuses a journal of rows that says otherwise than their files."""
        made = [self._prints_of(record.arrival) for record in index.records]
        if self.rows.lines.all() != made and self._head()["generation"] == index.generation:
            raise StoreError(f"{self.rows.lines.path} is not about the rows of this zoo; restore it from a copy")

    def tasks_with(self, index: Index, prints: NDArray[np.uint64]) -> list[str]:
        """The tasks of which some of these rows have come, by what they are known again by; only who writes may ask."""
        known = self.rows.lines.all()
        if len(known) != len(index.records) or any(len(each.rows) % 8 for each in known):
            raise StoreError(f"{self.rows.lines.path} is not about the rows of this zoo; restore it from a copy")
        rows = np.frombuffer(b"".join(each.rows for each in known), np.uint64)
        ends = np.cumsum([len(each.rows) // 8 for each in known])
        found = np.unique(np.searchsorted(ends, np.flatnonzero(np.isin(rows, prints)), side="right")).tolist()
        names = (index.records.abouts[place].task for place in found)
        return [*dict.fromkeys(name for name in names if name is not None)]

    def dropped(self, index: Index) -> set[str]:
        """The names of files that may no longer belong to the zoo once it is this one."""
        old, new = self.episodes.lines, index.records
        kept = new.kept if new.stored is old else 0
        pairs = zip_longest(map(old.unchecked, range(kept, len(old))), new[kept:])
        return set().union(*(was.files for was, now in pairs if was is not None and was != now))

    def write(self, index: Index) -> None:
        """Makes the zoo what the index says."""
        if index.records.stored is not self.episodes.lines:
            index = replace(index, records=Records(new=[*index.records]))
        records = index.records
        check_index(index, "the new index", records.kept)
        episodes, lines = self.episodes.write(records, index.generation)
        rows, prints = self.rows.write(self._rows(records), index.generation)
        marks = {
            "episodes": episodes,
            "rows": rows,
            "contents": self.contents.write(self._contents(records, lines, prints), index.generation),
            "log": self.log.write(index.log, index.generation),
        }
        head = {
            "format": FORMAT,
            "generation": index.generation,
            "chosen": msgspec.to_builtins(index.chosen),
            "settings": msgspec.to_builtins(index.settings),
            **msgspec.to_builtins(marks),
        }
        save_json(self.head, head)
        self.contents.take_up()
        self.log.take_up()
        stored = self._bodies(episodes, rows, index.settings)
        self.known = self._head(), replace(index, records=stored, log=Chain(self.log.lines, len(index.log)))

    def _contents(self, records: Records, lines: Sequence[Line], rows: Sequence[Line]) -> Chain[Entry]:
        new = [*map(Entry, lines, rows, records.fresh.abouts)]
        return (
            Chain(self.contents.lines, records.kept, new) if records.stored is self.episodes.lines else Chain(new=new)
        )

    def _rows(self, records: Records) -> Chain[Prints]:
        """The prints of all rows; those of an arrival that was there before are taken over."""
        known, old = self.rows.lines, self.episodes.lines
        if records.stored is old:
            return Chain(known, records.kept, [self._prints_of(record.arrival) for record in records.new])
        same = [place < len(old) and old[place].arrival == record.arrival for place, record in enumerate(records)]
        return Chain(
            new=[
                known[place] if same[place] else self._prints_of(record.arrival) for place, record in enumerate(records)
            ]
        )

    def _prints_of(self, arrival: Arrival | None) -> Prints:
        rows = [] if arrival is None else [rows for rows in (arrival.train, arrival.test) if rows is not None]
        return Prints(b"".join(self.content(each.digests) for each in rows))

    @property
    def bytes(self) -> int:
        """How much the journals take."""
        return sum(journal.mark.bytes for journal in self.journals if journal.mark is not None)

    def settle(self) -> None:
        """Deletes what an earlier head counted, or an interrupted program left."""
        for journal in self.journals:
            journal.settle()


def _mark(record: Reader) -> Mark:
    try:
        return msgspec.convert(record.value, Mark)
    except msgspec.ValidationError as error:
        raise StoreError(f"{record.place}: {error}; the file is damaged or was not written by zoolearn") from error
