"""Files of a zoo on their way in or out, so that a program that is killed leaves no orphans.

They are written in `incoming/`; their names are noted there before they get them, and before an index no longer names
them. What is noted and not named is deleted, by who wrote it or by the next program, without a look at all other files.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from zoolearn.errors import StoreError
from zoolearn.files import flush

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
    def receiving(self, place: str) -> Iterator[Path]:
        """An empty file to write, which `accept` gives its name."""
        part = self.folder / f"{token_hex(8)}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.touch(exist_ok=False)
            yield part
        except OSError as error:
            raise StoreError(f"cannot write into {self.zoo / place}: {error.strerror}; nothing was changed") from error
        finally:
            part.unlink(missing_ok=True)

    def accept(self, part: Path, place: str, digest: str) -> None:
        """Gives a file that is whole its name."""
        name = f"{place}/{digest}{PLACES[place]}"
        self.note([name])
        (self.zoo / place).mkdir(exist_ok=True)
        os.replace(part, self.zoo / name)

    def note(self, names: Iterable[str], *, safely: bool = False) -> None:
        """Notes files that are deleted unless an index names them; safely: so that a power cut loses no note."""
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

    def noted(self) -> list[str]:
        """The names that were noted, as far as they are those of a zoo's files."""
        if not self.names.is_file():
            return []
        return [name for name in self.names.read_text("ascii", "replace").split() if is_file_of_a_zoo(name)]

    def sweep(self, is_wanted: Callable[[str], bool]) -> None:
        """Deletes what was noted and is not wanted, and what was never finished."""
        for name in self.noted():
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


def is_file_of_a_zoo(name: str) -> bool:
    """Whether a name, relative to the folder, is that of a file which is named by its digest.

    >>> is_file_of_a_zoo(f"data/{'0' * 64}.bin"), is_file_of_a_zoo("data/cat.png"), is_file_of_a_zoo("../data")
    (True, False, False)
    """
    place, _, file = name.partition("/")
    suffix = PLACES.get(place, "/")
    return file.endswith(suffix) and DIGEST.fullmatch(file.removesuffix(suffix)) is not None
