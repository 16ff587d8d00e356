"""Unpacks an archive of images from an untrusted client: names are never used as paths, and all sizes are bounded.

Accepted are zip (stored or deflated), tar and tar.gz, with one folder for each class, or these in one more folder. Each
image goes into a file named by a number; other and hidden files are ignored. Links, encrypted files and names that lead
outside are an error: no honest archive has any.
"""

import gzip
import json
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from zoolearn.words import is_printable
from zoolearn.zoo.inputs.cells import compose
from zoolearn.zoo.inputs.folders import SPLITS, is_litter
from zoolearn.zoo.inputs.pictures import SUFFIXES
from zoolearn.zoo.inputs.source import Pictures
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.problems import Problem
from zoolearn.zoo.settings import LONGEST_NAME

WANTED = "send a zip, tar or tar.gz with one folder of images for each class"
DIRECTORY_BYTES = 16 << 20  # of a zip's list of names, which is read at once
BLOCK = 1 << 20
END_OF_ZIP = struct.Struct("<4s4H2LH")
LIST = "pictures.json"


@dataclass(frozen=True)
class Picture:
    """An unpacked image: its name in the archive, its class, and the name of its file."""

    name: str
    label: str
    file: str


def unpack(archive: Path, folder: Path, limits: Limits) -> tuple[dict[str, int], list[str]]:
    """Writes the images of an archive into an empty folder, with a list of them; returns the number of each class.

    And the names of files that are no images, without those that systems and archivers leave.
    """
    names: list[str] = []
    others: list[str] = []
    room = limits.unpacked_bytes
    try:
        for name, opened in _iter_entries(archive, limits):
            if any(is_litter(part) for part in PurePosixPath(name).parts):
                continue
            if PurePosixPath(name).suffix.lower() not in SUFFIXES:
                others.append(name)
                continue
            with opened as source, (folder / _file(len(names), name)).open("wb") as target:
                size = _copy(source, target, min(room, limits.picture_bytes), name)
            room -= size
            names.append(name)
    except (
        zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, struct.error,
        EOFError, ValueError, NotImplementedError, RuntimeError, OverflowError,
    ) as error:  # fmt: skip
        raise Problem(422, f"the archive is damaged ({error}); {WANTED}") from error
    labels = _labels(names)
    pictures = [Picture(name, labels[place], _file(place, name)) for place, name in enumerate(names)]
    (folder / LIST).write_text(json.dumps([asdict(picture) for picture in pictures]), encoding="utf-8")
    return dict(Counter(labels)), others


def open_unpacked(folder: Path) -> Pictures:
    """The images that `unpack` wrote, to be learned from."""
    pictures = [Picture(**entry) for entry in json.loads((folder / LIST).read_text(encoding="utf-8"))]
    return Pictures(
        "the archive",
        [picture.name for picture in pictures],
        [picture.label for picture in pictures],
        lambda row: folder / pictures[row].file,
    )


def _file(place: int, name: str) -> str:
    return f"{place:06}{PurePosixPath(name).suffix.lower()}"


def _iter_entries(archive: Path, limits: Limits) -> Iterator[tuple[str, IO[bytes]]]:
    with archive.open("rb") as file:
        start = file.read(512)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        yield from _iter_zip(archive, limits)
    elif start.startswith(b"\x1f\x8b") or start[257:262] == b"ustar":
        yield from _iter_tar(archive, limits)
    else:
        raise Problem(415, f"the body is no archive that is known; {WANTED}")


def _iter_zip(archive: Path, limits: Limits) -> Iterator[tuple[str, IO[bytes]]]:
    _check_long_directory(archive)
    with zipfile.ZipFile(archive) as content:
        _check_many(len(content.infolist()), limits)
        for entry in content.infolist():
            mode = entry.external_attr >> 16
            if entry.is_dir():
                continue
            _check_trick(entry.filename, is_plain=not stat.S_IFMT(mode) or stat.S_ISREG(mode))
            if entry.flag_bits & 1:
                raise Problem(422, f"{entry.filename[:80]!r} is encrypted; {WANTED}")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Problem(422, f"{entry.filename[:80]!r} is not compressed by deflate; {WANTED}")
            yield entry.filename, content.open(entry)


def _check_long_directory(archive: Path) -> None:
    """Raises if a zip's directory, which is read whole, is too large."""
    with archive.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - END_OF_ZIP.size - 0xFFFF - 20))
        tail = file.read()
    place = tail.rfind(b"PK\x05\x06")
    if place < 0 or place + END_OF_ZIP.size > len(tail):
        raise Problem(422, f"the zip is cut off; {WANTED}")
    directory = END_OF_ZIP.unpack_from(tail, place)[5]
    if directory > DIRECTORY_BYTES or b"PK\x06\x07" in tail[max(0, place - 20) : place]:
        raise Problem(413, "the zip lists too many files; send fewer images")


def _iter_tar(archive: Path, limits: Limits) -> Iterator[tuple[str, IO[bytes]]]:
    with archive.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        source: IO[bytes] = gzip.GzipFile(fileobj=plain) if packed else plain  # type: ignore[assignment]
        with tarfile.open(fileobj=Bounded(source, limits), mode="r:") as content:  # type: ignore[call-overload]
            for count, entry in enumerate(content, start=1):
                _check_many(count, limits)
                content.members = []  # else it keeps them all
                if entry.isdir():
                    continue
                _check_trick(entry.name, is_plain=entry.isreg() and not entry.issparse())
                opened = content.extractfile(entry)
                assert opened is not None
                yield entry.name, opened


class Bounded:
    """A file to read a tar from; raises if too much is read, at once or in all."""

    def __init__(self, file: IO[bytes], limits: Limits) -> None:
        self.file, self.limits = file, limits

    def read(self, size: int = -1) -> bytes:
        """Reads bytes; the sizes in a header are not trusted."""
        if not 0 <= size <= self.limits.picture_bytes:
            raise Problem(413, f"the tar has a header or a file of more than {self.limits.picture_bytes:,} bytes")
        self._check_beyond(self.file.tell() + size)
        return self.file.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        if whence:
            raise tarfile.ReadError("a tar is read from its start")
        self._check_beyond(place)
        return self.file.seek(place)

    def tell(self) -> int:
        return self.file.tell()

    def _check_beyond(self, place: int) -> None:
        if place > 2 * self.limits.unpacked_bytes:
            raise Problem(413, f"the tar unpacks to more than {self.limits.unpacked_bytes:,} bytes; send fewer images")


def _copy(source: IO[bytes], target: IO[bytes], room: int, name: str) -> int:
    size = 0
    while block := source.read(BLOCK):
        size += len(block)
        if size > room:
            raise Problem(
                413, f"the archive unpacks to more than is taken at {name[:80]!r}; send fewer, smaller images"
            )
        target.write(block)
    return size


def _check_many(count: int, limits: Limits) -> None:
    if count > limits.archive_entries:
        raise Problem(413, f"the archive holds more than {limits.archive_entries:,} files; send fewer images")


def _check_trick(name: str, *, is_plain: bool) -> None:
    """Raises on names that lead outside the folder; they would do no harm here, but no honest archive has them."""
    parts = PurePosixPath(name).parts
    leads_away = not parts or parts[0] == "/" or ".." in parts or "\\" in name or ":" in parts[0]
    if leads_away or not is_printable(name) or not is_plain:
        what = "a link or no plain file" if not is_plain else "no plain name below the archive's top"
        raise Problem(422, f"{name[:80]!r} is {what}; {WANTED}")


def _labels(names: list[str]) -> list[str]:
    """The class of each image: the topmost folder that is not common to all.

    >>> _labels(["birds/heron/1.png", "birds/heron/2.png", "birds/stork/old/1.png", "birds/stork/2.png"])
    ['heron', 'heron', 'stork', 'stork']
    """
    if not names:
        raise Problem(422, f"the archive holds no image; {WANTED}")
    paths = [PurePosixPath(name).parts for name in names]
    if min(map(len, paths)) > 2 and len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    if min(map(len, paths)) < 2:
        loose = names[min(range(len(paths)), key=lambda place: len(paths[place]))]
        raise Problem(422, f"{loose[:80]!r} is in no folder; {WANTED}")
    labels = [compose(path[0]) for path in paths]
    counts = Counter(labels)
    if {name.lower() for name in counts} <= SPLITS:
        raise Problem(422, f"the archive is split into {', '.join(counts)}, which are no classes; {WANTED}")
    if any(len(label) > LONGEST_NAME for label in counts):
        raise Problem(422, f"a class has a name of more than {LONGEST_NAME} characters; {WANTED}")
    return labels
