"""A file of records, one JSON object a line, that only grows: a change costs what it adds, however much is there already.

Where the file ends is said elsewhere, by a `Mark` that replaces the one before in one step; what lies beyond it is not
there yet, or no longer. The bytes are read and compared with their checksum at once, which is cheap; a line is decoded
when it is asked for, which is not.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

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


class Lines(Generic[Item]):
    """The records of a journal at one moment, each decoded once, when it is asked for."""

    def __init__(self, path: Path, data: bytes, decoder: "msgspec.json.Decoder[Item]") -> None:
        self.path, self.data, self.decoder = path, data, decoder
        self.decoded: dict[int, Item] = {}
        self.check: Callable[[Item, int], None] = lambda item, place: None  # raises what is wrong with one

    @cached_property
    def raw(self) -> list[bytes]:
        """The lines, without their ends."""
        return self.data.split(b"\n")[:-1]

    def end(self, count: int) -> int:
        """Where the first so many lines end."""
        return len(self.data) if count == len(self.raw) else sum(map(len, self.raw[:count])) + count

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, place: int) -> Item:
        if place not in self.decoded:
            try:
                item = self.decoder.decode(self.raw[place])
            except (msgspec.MsgspecError, RecursionError) as error:
                raise self._damaged(place, error) from error
            self.check(item, place)
            self.decoded[place] = item
        return self.decoded[place]

    def all(self) -> list[Item]:
        """All of them, decoded at once."""
        try:
            return self.decoder.decode_lines(self.data)
        except (msgspec.MsgspecError, RecursionError):
            return [self[place] for place in range(len(self))]  # names the line

    def _damaged(self, place: int, error: Exception) -> StoreError:
        return StoreError(f"{self.path}: line {place + 1}: {error}; the file is damaged or was not written by zoolearn")


class Chain(Sequence[Item]):
    """The first records of a journal, and new ones that are not in it yet."""

    def __init__(self, stored: Lines[Item] | None = None, kept: int = 0, new: Sequence[Item] = ()) -> None:
        self.stored, self.kept, self.new = stored, kept, tuple(new)

    def __len__(self) -> int:
        return self.kept + len(self.new)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        return self.new[place - self.kept] if self.stored is None or place >= self.kept else self.stored[place]

    def __iter__(self) -> Iterator[Item]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def until(self, count: int) -> "Chain[Item]":
        """The first so many."""
        return Chain(self.stored, min(count, self.kept), self.new[: max(0, count - self.kept)])

    def plus(self, *items: Item) -> "Chain[Item]":
        """With others behind them."""
        return Chain(self.stored, self.kept, (*self.new, *items))

    @property
    def kept_bytes(self) -> bytes:
        """The lines that are kept as they are."""
        return b"" if self.stored is None else self.stored.data[: self.stored.end(self.kept)]


class Journal(Generic[Item]):
    """One journal of a folder, as it was last read or written: reading again reads what is new."""

    def __init__(self, folder: Path, kind: str, item: type[Item]) -> None:
        self.folder, self.kind = folder, kind
        self.decoder = msgspec.json.Decoder(item)
        self.mark: Mark | None = None
        self.lines = Lines(folder, b"", self.decoder)
        self.hash = sha256()  # of all lines
        self.written: tuple[Mark, Lines[Item], HASH]

    def read(self, mark: Mark) -> Lines[Item]:
        """The records up to a mark; what was read before is not read again."""
        if mark == self.mark:
            return self.lines
        grows = self.mark is not None and self.mark.file == mark.file and self.mark.bytes <= mark.bytes
        known, digest = (self.lines.data, self.hash.copy()) if grows else (b"", sha256())
        path = self.folder / mark.file
        new = _read(path, len(known), mark.bytes)
        digest.update(new)
        if digest.hexdigest() != mark.digest or len(known) + len(new) != mark.bytes or new[-1:] not in (b"", b"\n"):
            if grows:  # the file is another one since
                self.mark = None
                return self.read(mark)
            raise StoreError(f"{path} was altered: its content does not match its checksum; restore it from a copy")
        decoded = self.lines.decoded if grows else {}
        self.mark, self.hash, self.lines = mark, digest, Lines(path, known + new, self.decoder)
        self.lines.decoded.update(decoded)
        return self.lines

    def write(self, chain: Chain[Item], generation: int) -> Mark:
        """Brings records to the disk; they count once the mark that is given back does. What counts now is not touched.

        Where records are only added, or the last ones only go, the file stays; else a new one, of this generation, holds all.
        """
        same = self.mark is not None and chain.stored is self.lines
        stays = same and (not chain.new or chain.kept == len(self.lines))
        name = self.mark.file if self.mark is not None and stays else f"{self.kind}-{generation}.jsonl"
        kept, new = chain.kept_bytes, b"".join(map(self._line, chain.new))
        if not stays:
            self._append(self.folder / name, 0, kept + new)
        elif new:
            self._append(self.folder / name, len(kept), new)
        digest = self.hash.copy() if same and chain.kept == len(self.lines) else sha256(kept)
        digest.update(new)
        mark = Mark(name, len(kept) + len(new), digest.hexdigest())
        self.written = mark, Lines(self.folder / name, kept + new, self.decoder), digest
        return mark

    def _append(self, path: Path, start: int, lines: bytes) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(path, flags, 0o666), "r+b") as file:
                file.truncate(start)  # what an interrupted program left there
                file.seek(start)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            flush(self.folder)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}; nothing was changed") from error

    def take_up(self) -> None:
        """Knows that what was written counts now."""
        self.mark, self.lines, self.hash = self.written

    def _line(self, item: Item) -> bytes:
        """A record as it is written, after reading it back."""
        line: bytes = msgspec.json.encode(item) + b"\n"
        if len(line) > LONGEST_LINE:
            raise StoreError(f"an entry of the index has {len(line):,} bytes; give shorter names")
        try:
            if self.decoder.decode(line) == item:
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
