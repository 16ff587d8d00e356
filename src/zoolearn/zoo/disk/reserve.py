"""Disk space reserved for changes that delete: on a full disk they could not be written otherwise."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import IO

from zoolearn.errors import StoreError

LEAST = 1 << 18  # bytes, beside those of the index, which is written again where a task is forgotten


class Reserve:
    """Of one zoo."""

    def __init__(self, zoo: Path) -> None:
        self.zoo, self.file = zoo, zoo / ".reserve"

    def keep(self, index_bytes: int) -> None:
        """Reserves the space, or what is missing of it; failing to is no error."""
        wanted = LEAST + index_bytes
        with suppress(OSError):
            if not self.file.exists() or self.file.stat().st_size < wanted:
                with self.file.open("ab") as file:
                    _take(file, 2 * wanted)

    def free(self, size: float = inf) -> None:
        """Frees so many bytes of the space."""
        left = self.file.stat().st_size - size if self.file.exists() else 0
        if left > 0:
            os.truncate(self.file, int(left))
        else:
            self.file.unlink(missing_ok=True)

    @contextmanager
    def release(self, size: float = inf) -> Iterator[None]:
        """Frees the space for a change that deletes; if the disk is full even so, the error says what to do."""
        try:
            self.free(size)
            yield
        except (StoreError, OSError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if not (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)):
                raise
            raise StoreError(
                f"{error}. The disk is full, also without the reserve of the zoo: delete or move something else on the "
                f"disk of {self.zoo}, then repeat this"
            ) from error


def _take(file: IO[bytes], size: int) -> None:
    """Allocates a file of this size, without writing it if the system can."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.write(bytes(size - file.tell()))
