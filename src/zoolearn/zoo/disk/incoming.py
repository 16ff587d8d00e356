"""Files being written or deleted, so that a killed program leaves no orphans.

They are written in `incoming/`; their names are noted there before they get them, and before an index drops them. Noted
files that no index names are deleted, by the same program or the next one, without listing all other files.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import StoreError
from zoolearn.files import flush
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.disk.arrivals import Dtype, Stored

DIGEST = re.compile(r"[0-9a-f]{64}")

TENSORS = ".safetensors"
PLACES = {"members": TENSORS, "votes": TENSORS, "statistics": TENSORS, "data": ".bin", "extractors": ".onnx"}
INCOMING = "incoming"


class Incoming:
    """Of one zoo."""

    def __init__(self, zoo: Path) -> None:
        self.zoo, self.folder = zoo, zoo / INCOMING
        self.names = self.folder / "names"

    @contextmanager
    def open_part(self, place: str) -> Iterator[Path]:
        """An empty file to write; `accept` gives it its name."""
        part = self.folder / f"{token_hex(8)}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.touch(exist_ok=False)
            yield part
        except OSError as error:
            raise StoreError(f"cannot write into {self.zoo / place}: {error.strerror}; nothing was changed") from error
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def open_file(self, place: str) -> "Iterator[NewFile]":
        """A file to write, which gets its name once complete."""
        with self.open_part(place) as part:
            with part.open("wb") as file:
                new = NewFile(file)
                yield new
                file.flush()
                os.fsync(file.fileno())
            self.accept(part, place, new.digest.hexdigest())

    def accept(self, part: Path, place: str, digest: str) -> None:
        """Gives a complete file its name."""
        name = f"{place}/{digest}{PLACES[place]}"
        self.note([name])
        (self.zoo / place).mkdir(exist_ok=True)
        os.replace(part, self.zoo / name)

    def note(self, names: Iterable[str], *, safely: bool = False) -> None:
        """Notes files to be deleted unless an index names them; `safely`: flushed, against power cuts."""
        lines = "".join(f"{name}\n" for name in sorted(names))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.names.open("a", encoding="ascii") as file:
                file.write(lines)
                if safely:
                    file.flush()
                    os.fsync(file.fileno())
                    flush(self.folder)
        except OSError as error:
            raise StoreError(f"cannot write {self.names}: {error.strerror}; nothing was changed") from error

    def read_notes(self) -> list[str]:
        """The noted names, as far as they are valid."""
        if not self.names.is_file():
            return []
        return [name for name in self.names.read_text("ascii", "replace").split() if is_file_of_a_zoo(name)]

    def sweep(self, is_wanted: Callable[[str], bool]) -> None:
        """Deletes noted files that are not wanted, and unfinished ones."""
        for name in self.read_notes():
            if not is_wanted(name):
                (self.zoo / name).unlink(missing_ok=True)
        for place in PLACES:
            if (self.zoo / place).is_dir():
                flush(self.zoo / place)
        for part in self.folder.iterdir():
            if part != self.names:
                part.unlink(missing_ok=True)
        self.names.unlink(missing_ok=True)  # last: until then the next program sweeps again
        self.folder.rmdir()


class NewFile:
    """A file that is being written, and the digest of its bytes so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, sha256()

    def write(self, content: bytes | memoryview) -> None:
        """Appends some bytes."""
        self.digest.update(content)
        self.file.write(content)


class RowsWriter:
    """A raw tensor that grows row by row."""

    def __init__(self, file: NewFile, dtype: Dtype, shape: Shape) -> None:
        self.file, self.dtype, self.shape = file, dtype, shape
        self.rows = 0

    def add(self, block: NDArray[Any]) -> None:
        """Appends some rows."""
        if len(block):
            self.file.write(np.ascontiguousarray(block, self.dtype).data.cast("B"))
            self.rows += len(block)

    @property
    def stored(self) -> Stored:
        """What was written so far."""
        return Stored(self.file.digest.hexdigest(), self.dtype, (self.rows, *self.shape))


def is_file_of_a_zoo(name: str) -> bool:
    """Whether a name, relative to the folder, is that of a file which is named by its digest.

    >>> is_file_of_a_zoo(f"data/{'0' * 64}.bin"), is_file_of_a_zoo("data/cat.png"), is_file_of_a_zoo("../data")
    (True, False, False)
    """
    place, _, file = name.partition("/")
    suffix = PLACES.get(place, "/")
    return file.endswith(suffix) and DIGEST.fullmatch(file.removesuffix(suffix)) is not None
