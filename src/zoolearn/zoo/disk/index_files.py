"""The index of a zoo on the disk: a small head, which is replaced whole, and journals, which grow by a line an episode.

Why not SQLite: its file has no checksums, keeps deleted rows in free pages and in journals of its own, and must be locked
to be read, which mounts that are shared or read-only may not allow. So a table of contents says which episodes are about
which task, and only those are decoded; reading the bytes takes 3 to 4 microseconds an episode.
"""

import json
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from zoolearn.errors import StoreError
from zoolearn.files import Json, load_json, save_json, seal
from zoolearn.zoo.disk.arrivals import Stored
from zoolearn.zoo.disk.entries import LogEntry
from zoolearn.zoo.disk.episode_files import EpisodeFiles, HeadState
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.disk.index_checks import NEW, check_index, check_printable
from zoolearn.zoo.disk.journal import Chain, Journal, Mark
from zoolearn.zoo.disk.records import Records
from zoolearn.zoo.read_settings import read_settings, write_settings

FORMAT = 4
HEAD, JOURNALS = "zoo.json", "index"
LARGEST_HEAD = 256 << 20
Kind = TypeVar("Kind")


class WithLog(Struct):
    """The head's mark of the log."""

    log: Mark


class IndexFiles:
    """The index of one folder; what was read before is not read again."""

    def __init__(self, folder: Path, content: Callable[[Stored], bytes]) -> None:
        self.head = folder / HEAD
        self.episodes = EpisodeFiles(folder / JOURNALS, content)
        self.earlier = EpisodeFiles(folder / JOURNALS, content)  # of the zoo that undo gives back
        self.log = Journal(folder / JOURNALS, "log", LogEntry)
        self.known: tuple[Mapping[str, Json], Index] | None = None

    def read(self) -> Index:
        """The present index; its episodes are read when they are asked for, if others have not changed them by then."""
        while True:
            head = self._head()
            if self.known is None or self.known[0] != head:
                try:
                    self.known = head, self._index(head)
                except StoreError:
                    if self._head() == head:
                        raise
                    continue  # it changed while it was read
            return self.known[1]

    def load(self, index: Index) -> Index:
        """An index with all its episodes at hand, which needs no lock; the present one, if this is no longer there."""
        while True:
            try:
                index.load()
            except StoreError:
                if self.read() is index:
                    raise
                index = self.read()
            else:
                return index

    def read_log(self) -> Sequence[LogEntry]:
        """The log, without reading the rest of the index."""
        while True:
            head = self._head()
            try:
                return self._log(head)
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
        before = self._state(head["before"], self.earlier) if head.get("before") else None
        return replace(self._state(head, self.episodes), log=self._log(head), before=before)

    def _state(self, head: Json, files: EpisodeFiles) -> Index:
        """The zoo described by a head: the present one, or the one before."""
        state = self._read(head, HeadState)
        chosen, settings = (read_settings(record, f"{self.head}.settings") for record in (state.chosen, state.settings))
        return Index(chosen, settings, state.generation, files.read(state, settings))

    def _read(self, record: Json, kind: type[Kind]) -> Kind:
        try:
            return msgspec.convert(record, kind)
        except msgspec.ValidationError as error:
            raise StoreError(f"{self.head}: {error}; the file is damaged or was not written by zoolearn") from error

    def _log(self, head: Json) -> Chain[LogEntry]:
        lines = self.log.read(self._read(head, WithLog).log)
        where = str(lines.path)  # not the lines: two that keep each other are let go late
        lines.check = lambda entry, place: check_printable(entry, where)
        return Chain(lines, len(lines))

    def check(self, index: Index) -> None:
        """Reads a whole index; raises if its parts are inconsistent."""
        check_index(index, index.records.where)
        if not self.episodes.are_rows_of(index.records) and self._head()["generation"] == index.generation:
            raise StoreError(
                f"{self.episodes.rows.lines.path} is not about the rows of this zoo; restore it from a copy"
            )

    def tasks_with(self, index: Index, prints: NDArray[np.uint64]) -> list[str]:
        """The tasks that have some of these rows, by digest; only for writers."""
        return self.episodes.tasks_with(index.records, prints)

    def find_dropped(self, index: Index) -> set[str]:
        """The files that may no longer belong to the zoo once this is its index."""
        gone = self.episodes.find_dropped(index.records)
        if self.known is None:
            return gone
        now = self.known[1]
        return gone | now.settings.files | (now.before.files() if now.before else set())

    def write(self, index: Index) -> Index:
        """Commits an index; returns it as it is stored now."""
        if index.records.stored is not self.episodes.records.lines:
            index = replace(index, records=Records(new=[*index.records]))
        check_index(index, NEW, index.records.kept)
        chosen, settings = write_settings(index.chosen), write_settings(index.settings)
        marks = self.episodes.write(index.records, index.generation)
        head = {
            "format": FORMAT,
            "generation": index.generation,
            "chosen": chosen,
            "settings": settings,
            **msgspec.to_builtins(marks),
            "log": msgspec.to_builtins(self.log.write(index.log, index.generation)),
            "before": self._kept(index),
        }
        if (size := len(json.dumps(seal(head)))) >= LARGEST_HEAD:  # it could not be read again
            raise StoreError(
                f"the settings of the zoo would take {size:,} bytes, more than any zoo's head; give columns shorter names"
            )
        save_json(self.head, head)
        self.log.commit()
        records = self.episodes.commit(marks, index.settings)
        stored = replace(index, records=records, log=Chain(self.log.lines, len(index.log)))
        self.known = self._head(), stored
        return stored

    def _kept(self, index: Index) -> dict[str, Json] | None:
        """The part of the present head that undo restores, if the index has one."""
        if index.before is None or self.known is None:
            return None
        return {word: self.known[0][word] for word in HeadState.__struct_fields__}

    @property
    def bytes(self) -> int:
        """The size of the journals."""
        return self.episodes.bytes + (self.log.mark.bytes if self.log.mark else 0)

    def sweep(self) -> None:
        """Deletes outdated files, and what an interrupted program left."""
        before = self.known[0].get("before") if self.known else None
        self.episodes.sweep([before[kind]["file"] for kind in ("episodes", "rows", "contents")] if before else ())
        self.log.sweep()
