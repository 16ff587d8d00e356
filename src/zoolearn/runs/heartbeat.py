"""The heartbeat of a run: its progress in a small file that `zoo watch` reads and nothing else depends on."""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic

import msgspec

from zoolearn.training.fit import Progress

FILE = ".heartbeat"
SECONDS = 1.0  # between two writes; a file that is replaced but never flushed costs some ten microseconds


class Heartbeat:
    """Writes at most once a second, and nothing without a folder; a full disk does not stop a training."""

    def __init__(self, folder: Path | None) -> None:
        self.file = folder / FILE if folder is not None else None
        self.last = -SECONDS

    def write(self, progress: Progress) -> None:
        """Writes the progress of a training, if the file is a second old."""
        if self.file is None or monotonic() - self.last < SECONDS:
            return
        self.last = monotonic()
        part = self.file.with_name(f"{FILE}.part")
        with suppress(OSError):
            part.write_bytes(msgspec.json.encode(progress))
            os.replace(part, self.file)

    def stop(self) -> None:
        """Removes the file."""
        if self.file is not None:
            for file in (self.file, self.file.with_name(f"{FILE}.part")):
                with suppress(OSError):
                    file.unlink(missing_ok=True)


def read_heartbeat(folder: Path) -> Progress | None:
    """The last progress written in a run's folder, if it can be read.

    >>> read_heartbeat(Path("nowhere"))
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Progress)
    except (OSError, msgspec.MsgspecError):
        return None
