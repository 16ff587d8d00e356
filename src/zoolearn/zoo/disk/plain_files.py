"""Reading plain files of a zoo: links are not followed, and errors name the file and the way out."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoolearn.errors import StoreError

LONGEST_LINE = 64 << 20


def read_part(path: Path, start: int, end: int) -> bytes:
    """A part of a file, block by block; a sparse file of enormous size fails at once."""
    blocks = []
    with explain_errors(path):
        measure_file(path)
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            file.seek(start)
            while start < end and (block := file.read(min(end - start, LONGEST_LINE))):
                if b"\n" not in block:
                    raise StoreError(f"{path} has a line of more than {LONGEST_LINE:,} bytes; restore it from a copy")
                blocks.append(block)
                start += len(block)
    return b"".join(blocks)


def measure_file(path: Path) -> int:
    """The size of a plain file."""
    with explain_errors(path):
        if path.parent.is_symlink() or not stat.S_ISREG((facts := path.lstat()).st_mode):
            raise StoreError(f"{path} is a link or no plain file; a zoo has only plain files, restore it from a copy")
        return facts.st_size


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Errors of reading a file, by its name and with the way out."""
    try:
        yield
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing; restore it from a copy") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); see to its permissions and its disk") from error
