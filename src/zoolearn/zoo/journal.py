"""A file of records, one JSON object a line, that only grows: a change costs what it adds, however much is there already.

Where the file ends is said elsewhere, by a `Mark` that replaces the one before in one step; what lies beyond it is not
there yet, or no longer.
"""

import os
import re
import stat
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from zoolearn.errors import StoreError
from zoolearn.files import flush

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

Item = TypeVar("Item")

LONGEST_LINE = 64 << 20
NAME = re.compile(r"[a-z]+-[0-9]{1,19}\.jsonl")
Digest = Annotated[str, Meta(min_length=64, max_length=64)]


class Mark(Struct, frozen=True):
    """The name of a journal's file, how much of it counts, and the sha256 of that."""

    file: Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
    bytes: Annotated[int, Meta(ge=0)]
    digest: Digest


class Journal(Generic[Item]):
    """One journal of a folder, as it was last read or written: reading again reads what is new."""

    def __init__(self, folder: Path, kind: str, item: type[Item]) -> None:
        self.folder, self.kind = folder, kind
        self.decode = msgspec.json.Decoder(item).decode
        self.mark: Mark | None = None
        self.items: list[Item] = []
        self.lines: list[bytes] = []
        self.hash = sha256()  # of all lines
        self.written: tuple[Mark, list[Item], list[bytes], HASH]

    def read(self, mark: Mark) -> Sequence[Item]:
        """The records up to a mark, every line checked; those that were read before are not read again."""
        grows = self.mark is not None and self.mark.file == mark.file and self.mark.bytes <= mark.bytes
        items, lines, digest = (self.items, self.lines, self.hash.copy()) if grows else ([], [], sha256())
        start = self.mark.bytes if self.mark is not None and grows else 0
        path = self.folder / mark.file
        new = _read(path, start, mark.bytes)
        digest.update(new)
        if digest.hexdigest() != mark.digest or start + len(new) != mark.bytes or new[-1:] not in (b"", b"\n"):
            if grows:  # the file is another one since
                self.mark = None
                return self.read(mark)
            raise StoreError(f"{path} was altered: its content does not match its checksum; restore it from a copy")
        added = [line + b"\n" for line in new.split(b"\n")[:-1]]
        found = [self._item(line, path, len(lines) + number) for number, line in enumerate(added, start=1)]
        self.mark, self.items, self.lines, self.hash = mark, items + found, lines + added, digest
        return self.items

    def _item(self, line: bytes, path: Path, number: int) -> Item:
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
        name = self.mark.file if self.mark is not None and keeps else f"{self.kind}-{generation}.jsonl"
        kept = self.lines[:same] if keeps else []
        new = [self._line(item) for item in items[len(kept) :]]
        start, digest = sum(map(len, kept)), sha256(b"".join(kept))
        if new or not keeps:
            self._append(self.folder / name, start, new)
        digest.update(b"".join(new))
        mark = Mark(name, start + sum(map(len, new)), digest.hexdigest())
        self.written = mark, list(items), kept + new, digest
        return mark

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
        self.mark, self.items, self.lines, self.hash = self.written

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

    def settle(self, keep: str | None = None) -> None:
        """Deletes what no longer counts; the file to `keep` is of a zoo that may count again."""
        if self.mark is None:
            return
        path = self.folder / self.mark.file
        if path.stat().st_size > self.mark.bytes:
            os.truncate(path, self.mark.bytes)
        for other in self.folder.glob(f"{self.kind}-*"):
            if other.name not in (self.mark.file, keep):
                other.unlink()


def _read(path: Path, start: int, end: int) -> bytes:
    """A part of a file, block by block: one that is large because it is a hole in the file is given up at once."""
    blocks = []
    try:
        if path.parent.is_symlink() or not stat.S_ISREG(path.lstat().st_mode):
            raise StoreError(f"{path} is a link or no plain file; a zoo has only plain files, restore it from a copy")
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            file.seek(start)
            while start < end and (block := file.read(min(end - start, LONGEST_LINE))):
                if b"\n" not in block:
                    raise StoreError(f"{path} has a line of more than {LONGEST_LINE:,} bytes; restore it from a copy")
                blocks.append(block)
                start += len(block)
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing; restore it from a copy") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); see to its permissions and its disk") from error
    return b"".join(blocks)
