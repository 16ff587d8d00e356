"""Append-only files of records, one JSON object a line: a change costs only what it adds.

The valid end of a file is kept elsewhere, in a `Mark` that is replaced atomically; anything beyond it does not count. A
`Journal` is small and verified whole by its checksum. A `Body` is large; each of its lines has a checksum in a journal,
and is verified, decoded and checked when it is read.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct

from zoolearn.errors import StoreError
from zoolearn.files import flush
from zoolearn.zoo.disk.plain_files import LONGEST_LINE, measure_file, read_part

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

Item = TypeVar("Item")

READ_ONE_BY_ONE = 16  # lines
NAME = re.compile(r"[a-z]+-[0-9]{1,19}\.jsonl")
Digest = Annotated[str, Meta(min_length=64, max_length=64)]


class Mark(Struct, frozen=True):
    """The name of a file of records, its valid length, and the sha256 of that, unless each line has its own."""

    file: Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
    bytes: Annotated[int, Meta(ge=0)]
    digest: Digest | None = None


class Line(Struct, frozen=True, array_like=True, gc=False):
    """Where a line ends, and the first half of its sha256."""

    end: Annotated[int, Meta(ge=1)]
    digest: Annotated[str, Meta(min_length=32, max_length=32)]

    @classmethod
    def all_of(cls, lines: Iterable[bytes], start: int) -> "list[Line]":
        """The lines that follow one another from an offset."""
        found = []
        for line in lines:
            start += len(line)
            found.append(cls(start, _digest(line)))
        return found


class Lines(Generic[Item]):
    """Records on disk at one moment, each decoded once, on demand; of a body, its bytes too."""

    def __init__(
        self, path: Path, decoder: "msgspec.json.Decoder[Item]", data: bytes | None, marks: Sequence[Line] | None = None
    ) -> None:
        self.path, self.decoder, self.marks = path, decoder, marks
        if data is not None:
            self.data = data
        self.decoded: dict[int, Item] = {}
        self.check: Callable[[Item, int], None] = lambda item, place: None  # raises what is wrong with one

    @cached_property
    def data(self) -> bytes:
        """The lines; of a body, there may be more behind them."""
        data = read_part(self.path, 0, self.end(len(self)))
        if self.marks and _digest(data[self.end(len(self) - 1) :]) != self.marks[-1].digest:
            raise _make_error(self.path)
        return data

    @property
    def is_loaded(self) -> bool:
        """Whether all bytes are at hand, so that what is asked for is of one state, whatever others change."""
        return "data" in vars(self)

    @cached_property
    def _ends(self) -> list[int]:
        ends: list[int] = (np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n")) + 1).tolist()
        return ends

    def end(self, count: int) -> int:
        """The offset at which the first `count` lines end."""
        if not count:
            return 0
        return self._ends[count - 1] if self.marks is None else self.marks[count - 1].end

    def ends(self, count: int) -> list[int]:
        """Where each of the first so many lines ends."""
        return self._ends[:count] if self.marks is None else [mark.end for mark in self.marks[:count]]

    def __len__(self) -> int:
        return len(self._ends if self.marks is None else self.marks)

    def __getitem__(self, place: int) -> Item:
        if place not in self.decoded:
            item = self.decode(place)
            self.check(item, place)
            self.decoded[place] = item
        return self.decoded[place]

    def decode(self, place: int) -> Item:
        """A record, verified but not checked further."""
        line = self._line(place)
        if self.marks is not None and _digest(line) != self.marks[place].digest:
            raise _make_error(self.path)
        try:
            return self.decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise StoreError(
                f"{self.path}: line {place + 1}: {error}; the file is damaged or was not written by zoolearn"
            ) from error

    def _line(self, place: int) -> bytes:
        """The bytes of a record. The first few are read one by one; who asks for more is about to ask for most."""
        start, end = self.end(place), self.end(place + 1)
        if self.is_loaded or len(self.decoded) >= READ_ONE_BY_ONE:
            return self.data[start:end]
        return read_part(self.path, start, end)

    def all(self) -> list[Item]:
        """All records, verified and decoded at once."""
        data = self.data[: self.end(len(self))]
        lines = data.splitlines(keepends=True)
        is_whole = self.marks is None or [mark.digest for mark in self.marks] == [*map(_digest, lines)]
        try:
            if is_whole and len(items := self.decoder.decode_lines(data)) == len(self):
                self.decoded = dict(enumerate(items))
        except (msgspec.MsgspecError, RecursionError):
            pass  # one of them has a number to be told by
        return [self[place] for place in range(len(self))]

    def reuse(self, known: "Lines[Item]") -> None:
        """Takes over what earlier lines have decoded, where they are the same."""
        old, now = known.marks or (), self.marks or ()
        for place, item in known.decoded.items():
            if place < len(now) and old[place] == now[place]:
                self.decoded[place] = item


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

    def truncate(self, count: int) -> "Chain[Item]":
        """The first `count` records."""
        return Chain(self.stored, min(count, self.kept), self.new[: max(0, count - self.kept)])

    def append(self, *items: Item) -> "Chain[Item]":
        """With further records."""
        return Chain(self.stored, self.kept, (*self.new, *items))

    @property
    def kept_bytes(self) -> bytes:
        """The lines that are kept as they are."""
        return b"" if self.stored is None else self.stored.data[: self.end]

    @property
    def end(self) -> int:
        """The offset at which they end."""
        return 0 if self.stored is None else self.stored.end(self.kept)


class _Growing(Generic[Item]):
    """A file of records in a folder, as it was last read or written."""

    def __init__(self, folder: Path, kind: str, item: type[Item]) -> None:
        self.folder, self.kind = folder, kind
        self.decoder = msgspec.json.Decoder(item)
        self.mark: Mark | None = None
        self.lines: Lines[Item] = Lines(folder, self.decoder, b"")

    def _write(self, chain: Chain[Item], generation: int) -> tuple[Path, list[bytes]]:
        """Writes records; returns their file and the new lines. What is valid now is not touched.

        If records are only added, or the last ones dropped, the file stays; else a new one, of this generation,
        holds all.
        """
        stays = chain.stored is self.lines and (not chain.new or chain.kept == len(self.lines))
        new = [*map(self._line, chain.new)]
        if self.mark is not None and stays:
            path = self.folder / self.mark.file
            if new:
                self._append(path, chain.end, b"".join(new))
        else:
            path = self.folder / f"{self.kind}-{generation}.jsonl"
            self._append(path, 0, chain.kept_bytes + b"".join(new))
        return path, new

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

    def _line(self, item: Item) -> bytes:
        """A record as it is written, after decoding it again."""
        line: bytes = msgspec.json.encode(item) + b"\n"
        if len(line) > LONGEST_LINE:
            raise StoreError(f"an entry of the index has {len(line):,} bytes; give shorter names")
        try:
            if self.decoder.decode(line) == item:
                return line
        except msgspec.MsgspecError as error:
            raise StoreError(f"the index cannot hold what it is to say ({error}); nothing was changed") from error
        raise StoreError("the index cannot hold what it is to say: it reads back otherwise; nothing was changed")

    def sweep(self, keep: Sequence[str] = ()) -> None:
        """Deletes outdated files, except those to `keep`."""
        if self.mark is None:
            return
        path = self.folder / self.mark.file
        if path.stat().st_size > self.mark.bytes:
            os.truncate(path, self.mark.bytes)
        for other in self.folder.glob(f"{self.kind}-*"):
            if other.name not in (self.mark.file, *keep):
                other.unlink()


class Journal(_Growing[Item]):
    """A small file of records: reading it again reads only what is new."""

    def __init__(self, folder: Path, kind: str, item: type[Item]) -> None:
        super().__init__(folder, kind, item)
        self.hashed: tuple[Lines[Item], dict[int, HASH]] = self.lines, {}  # checksums of these lines, by where they end
        self.written: tuple[Mark, Lines[Item]]

    def read(self, mark: Mark) -> Lines[Item]:
        """The records up to a mark."""
        if mark == self.mark:
            return self.lines
        grows = self.mark is not None and self.mark.file == mark.file and self.mark.bytes <= mark.bytes
        known, digest = (self.lines.data, self._hash(Chain(self.lines, len(self.lines)))) if grows else (b"", sha256())
        path = self.folder / mark.file
        new = read_part(path, len(known), mark.bytes)
        last = new.rfind(b"\n", 0, -1) + 1
        digest.update(new[:last])
        before = digest.copy()  # for an undo, which cuts off the last line
        digest.update(new[last:])
        if digest.hexdigest() != mark.digest or len(known) + len(new) != mark.bytes or new[-1:] not in (b"", b"\n"):
            if grows:  # the file is another one since
                self.mark = None
                return self.read(mark)
            raise _make_error(path)
        self.mark, self.lines = mark, Lines(path, self.decoder, known + new)
        self.hashed = self.lines, {len(known) + last: before, mark.bytes: digest}
        return self.lines

    def write(self, chain: Chain[Item], generation: int) -> Mark:
        """Writes records; they become valid with the returned mark."""
        path, new = self._write(chain, generation)
        digest = self._hash(chain)
        digest.update(b"".join(new))
        lines = Lines(path, self.decoder, chain.kept_bytes + b"".join(new))
        lines._ends = [*accumulate(map(len, new), initial=chain.end)][1:]
        if chain.stored is not None:
            lines._ends = chain.stored.ends(chain.kept) + lines._ends
        mark = Mark(path.name, len(lines.data), digest.hexdigest())
        self.written, self.hashed = (mark, lines), (lines, {mark.bytes: digest})
        return mark

    def commit(self) -> None:
        """Notes that what was written is valid now."""
        self.mark, self.lines = self.written

    def _hash(self, chain: Chain[Item]) -> "HASH":
        """The checksum of the kept lines, to be continued."""
        lines, digests = self.hashed
        known = digests.get(chain.end) if chain.stored is lines else None
        return sha256(chain.kept_bytes) if known is None else known.copy()


class Body(_Growing[Item]):
    """A large file of records with a checksum for each line: appending or truncating reads none."""

    def __init__(self, folder: Path, kind: str, item: type[Item]) -> None:
        super().__init__(folder, kind, item)
        self.written: tuple[Mark | None, bytes | None] = None, None  # what is at hand of what was last written

    def read(self, mark: Mark, marks: Sequence[Line]) -> Lines[Item]:
        """The records up to a mark."""
        lines = Lines(
            self.folder / mark.file, self.decoder, self.written[1] if self.written[0] == mark else None, marks
        )
        if lines.end(len(lines)) != mark.bytes or measure_file(lines.path) < mark.bytes:
            raise _make_error(lines.path)
        self.mark, self.lines = mark, lines
        return lines

    def write(self, chain: Chain[Item], generation: int) -> tuple[Mark, list[Line]]:
        """Writes records, which become valid with the returned mark; returns the new lines too."""
        path, new = self._write(chain, generation)
        lines = Line.all_of(new, chain.end)
        mark = Mark(path.name, lines[-1].end if lines else chain.end)
        data = chain.stored.data if chain.stored is not None and chain.stored.is_loaded else None
        self.written = mark, data if not new or data is None else chain.kept_bytes + b"".join(new)
        return mark, lines


def _digest(line: bytes) -> str:
    return sha256(line).hexdigest()[:32]


def _make_error(path: Path) -> StoreError:
    return StoreError(f"{path} was altered: its content does not match its checksum; restore it from a copy")
