"""A file of records, one JSON object a line, that only grows: a change costs what it adds, however much is there already.

Where the file ends is said elsewhere, by a `Mark` that replaces the one before in one step; what lies beyond it is not
there yet, or no longer. The digest of a mark is a chain: each line's is taken of the one before it and of the line, so
that one more line is checked or written without the others, and no line before it can be another unnoticed.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import IO, Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from zoolearn.errors import StoreError
from zoolearn.files import flush

Item = TypeVar("Item")

LONGEST_LINE = 64 << 20
NAME = re.compile(r"[a-z]+-[0-9]{1,19}\.jsonl")
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True)
class Mark:
    """The name of a journal's file, how much of it counts, and the digest of that."""

    file: Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
    bytes: Annotated[int, Meta(ge=0)]
    digest: Digest


@dataclass(frozen=True)
class Place:
    """Where a line ends, and the digest up to there."""

    bytes: int
    digest: str


START = Place(0, sha256().hexdigest())


class Journal(Generic[Item]):
    """One journal of a folder, as it was last read or written: reading again reads what is new."""

    def __init__(self, folder: Path, kind: str, item: type[Item]) -> None:
        self.folder, self.kind = folder, kind
        self.decode = msgspec.json.Decoder(item).decode
        self.mark: Mark | None = None
        self.items: list[Item] = []
        self.places = [START]
        self.written: tuple[Mark, list[Item], list[Place]]

    def read(self, mark: Mark) -> Sequence[Item]:
        """The records up to a mark, every line checked; those that were read before are not read again."""
        known = self._known(mark)
        items, places = self.items[:known], self.places[: known + 1]
        path = self.folder / mark.file
        with _opened(path) as file:
            file.seek(places[-1].bytes)
            while places[-1].bytes < mark.bytes:
                line = file.readline(LONGEST_LINE + 1)
                items.append(self._item(line, path, len(items) + 1))
                places.append(_after(places[-1], line))
        if (places[-1].bytes, places[-1].digest) != (mark.bytes, mark.digest):
            if known:  # the file is another one since
                self.mark = None
                return self.read(mark)
            raise StoreError(f"{path} was altered: its content does not match its checksum; restore it from a copy")
        self.mark, self.items, self.places = mark, items, places
        return items

    def _known(self, mark: Mark) -> int:
        """How many lines need not be read again."""
        if self.mark is None or self.mark.file != mark.file:
            return 0
        if self.places[-1].bytes <= mark.bytes:
            return len(self.items)
        ends = [place.bytes for place in self.places]
        return ends.index(mark.bytes) if mark.bytes in ends else 0

    def _item(self, line: bytes, path: Path, number: int) -> Item:
        if not line.endswith(b"\n"):
            much = f"has more than {LONGEST_LINE:,} bytes" if len(line) > LONGEST_LINE else "is cut short"
            raise StoreError(f"{path}: line {number} {much}; restore it from a copy")
        try:
            return self.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise StoreError(
                f"{path}: line {number}: {error}; the file is damaged or was not written by zoolearn"
            ) from error

    def write(self, items: Sequence[Item], generation: int) -> Mark:
        """Brings records to the disk; they count once the mark that is given back does. What counts now is not touched.

        Where records are only added, or the last ones only go, the file stays; else a new one, of this generation, holds all.
        """
        same = self.same(items)
        keeps = self.mark is not None and same in (len(items), len(self.items))
        kept = same if keeps else 0
        name = self.mark.file if self.mark is not None and keeps else f"{self.kind}-{generation}.jsonl"
        lines = [self._line(item) for item in items[kept:]]
        places = [*self.places[:kept], *accumulate(lines, _after, initial=self.places[kept])]
        if lines or not keeps:
            self._append(self.folder / name, places[kept].bytes, lines)
        self.written = Mark(name, places[-1].bytes, places[-1].digest), list(items), places
        return self.written[0]

    def _append(self, path: Path, start: int, lines: Sequence[bytes]) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(path, flags, 0o666), "r+b") as file:
                file.truncate(start)  # what an interrupted program left there
                file.seek(start)
                file.write(b"".join(lines))
                file.flush()
                os.fsync(file.fileno())
            flush(self.folder)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}; nothing was changed") from error

    def take_up(self) -> None:
        """Knows that what was written counts now."""
        self.mark, self.items, self.places = self.written

    def same(self, items: Sequence[Item]) -> int:
        """How many records are at the start of both what counts and these."""
        pairs = zip(self.items, items, strict=False)
        return next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(self.items), len(items)))

    def _line(self, item: Item) -> bytes:
        """A record as it is written, after reading it back."""
        line: bytes = msgspec.json.encode(item) + b"\n"
        if len(line) > LONGEST_LINE:
            raise StoreError(f"an entry of the index has {len(line):,} bytes; give shorter names")
        try:
            if self.decode(line) == item:
                return line
        except msgspec.MsgspecError as error:
            raise StoreError(f"the index cannot hold what it is to say ({error}); nothing was changed") from error
        raise StoreError("the index cannot hold what it is to say: it reads back otherwise; nothing was changed")

    def settle(self) -> None:
        """Deletes what no longer counts."""
        if self.mark is None:
            return
        path = self.folder / self.mark.file
        if path.stat().st_size > self.mark.bytes:
            os.truncate(path, self.mark.bytes)
        for other in self.folder.glob(f"{self.kind}-*"):
            if other.name != self.mark.file:
                other.unlink()


def _after(place: Place, line: bytes) -> Place:
    return Place(place.bytes + len(line), sha256(bytes.fromhex(place.digest) + line).hexdigest())


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        if path.parent.is_symlink() or not stat.S_ISREG(path.lstat().st_mode):
            raise StoreError(f"{path} is a link or no plain file; a zoo has only plain files, restore it from a copy")
        file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb")
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing; restore it from a copy") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); see to its permissions and its disk") from error
    with file:
        yield file
