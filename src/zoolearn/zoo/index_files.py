"""The index of a zoo on the disk: a small head, which is replaced whole, and two journals, which grow.

Why not SQLite: its file has no checksums, keeps deleted rows in free pages and in journals of its own, and must be locked
to be read, which mounts that are shared or read-only may not allow. A journal is read whole, and that is linear: about 30
microseconds an episode, once per program.
"""

import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from zoolearn.errors import StoreError
from zoolearn.files import Json, load_json, save_json
from zoolearn.zoo.index import Index, LogEntry, Record
from zoolearn.zoo.index_checks import check_index, check_printable
from zoolearn.zoo.journal import Journal, Mark
from zoolearn.zoo.reader import Reader
from zoolearn.zoo.settings import ZooSettings

FORMAT = 3
HEAD, JOURNALS = "zoo.json", "index"
LARGEST_HEAD = 256 << 20


class IndexFiles:
    """The index of one folder; what was read before is not read again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.head = folder, folder / HEAD
        self.episodes = Journal(folder / JOURNALS, "episodes", Record)
        self.earlier = Journal(folder / JOURNALS, "episodes", Record)  # of the zoo that undo gives back
        self.log = Journal(folder / JOURNALS, "log", LogEntry)
        self.known: tuple[Mapping[str, Json], Index] | None = None

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
                log = self.log.read(self._mark(Reader(dict(head), str(self.head))["log"]))
                check_printable(log, str(self.head))
            except StoreError:
                if self._head() == head:
                    raise
                continue
            return log

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
        before = self._zoo(record["before"], self.earlier, ()) if head.get("before") else None
        return replace(self._zoo(record, self.episodes, self.log.read(self._mark(record["log"]))), before=before)

    def _zoo(self, record: Reader, journal: Journal[Record], log: Sequence[LogEntry]) -> Index:
        """What a head says of a zoo, that of now or of the one before, with the episodes of a journal."""
        index = Index(
            ZooSettings.read(record["chosen"]),
            ZooSettings.read(record["settings"]),
            record["generation"].whole(0, 1 << 62),
        )
        episodes = self._mark(record["episodes"])
        index = index.with_records(journal.read(episodes), log)
        check_index(index, str(self.folder / JOURNALS / episodes.file))
        return index

    def _mark(self, record: Reader) -> Mark:
        try:
            return msgspec.convert(record.value, Mark)
        except msgspec.ValidationError as error:
            raise StoreError(f"{record.place}: {error}; the file is damaged or was not written by zoolearn") from error

    def dropped(self, index: Index) -> set[str]:
        """The names of files that may no longer belong to the zoo once it is this one."""
        records = index.records()
        gone = set().union(*(record.files for record in self.episodes.items[self.episodes.same(records) :]))
        if self.known is None:
            return gone
        now = self.known[1]
        return gone | now.settings.files | (now.before.files() if now.before else set())

    def write(self, index: Index) -> None:
        """Makes the zoo what the index says."""
        check_index(index, "the new index", self.episodes.same(index.records()))
        episodes = self.episodes.write(index.records(), index.generation)
        log = self.log.write(index.log, index.generation)
        head = {
            "format": FORMAT,
            "generation": index.generation,
            "chosen": msgspec.to_builtins(index.chosen),
            "settings": msgspec.to_builtins(index.settings),
            "episodes": msgspec.to_builtins(episodes),
            "log": msgspec.to_builtins(log),
            "before": self._kept(index),
        }
        save_json(self.head, head)
        self.episodes.take_up()
        self.log.take_up()
        self.known = self._head(), index

    def _kept(self, index: Index) -> dict[str, Json] | None:
        """What the head keeps of itself as it is now, where that is what undo gives back."""
        if index.before is None or self.known is None:
            return None
        return {word: self.known[0][word] for word in ("generation", "chosen", "settings", "episodes")}

    @property
    def bytes(self) -> int:
        """How much the journals take."""
        return sum(journal.mark.bytes for journal in (self.episodes, self.log) if journal.mark is not None)

    def settle(self) -> None:
        """Deletes what an earlier head counted, or an interrupted program left."""
        before = self.known[0].get("before") if self.known else None
        self.episodes.settle(keep=before["episodes"]["file"] if before else None)
        self.log.settle()
