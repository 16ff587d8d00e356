"""The pulse of a run: how its training goes, in a small file for those who watch, and that nothing else depends on."""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic

import msgspec

from zoolearn.training.fit import Progress

FILE = ".heartbeat"
SECONDS = 1.0  # between two beats; a file that is replaced but never flushed costs some ten microseconds


class Heartbeat:
    """Beats at most once a second; without a folder it is silent. A disk that takes no more does not stop a training."""

    def __init__(self, folder: Path | None) -> None:
        self.file = folder / FILE if folder is not None else None
        self.last = -SECONDS

    def write(self, progress: Progress) -> None:
        """Writes down how far a training is, if the last word is old enough."""
        if self.file is None or monotonic() - self.last < SECONDS:
            return
        self.last = monotonic()
        part = self.file.with_name(f"{FILE}.part")
        with suppress(OSError):
            part.write_bytes(msgspec.json.encode(progress))
            os.replace(part, self.file)

    def stop(self) -> None:
        """Takes the file away: nothing is under way any more."""
        if self.file is not None:
            for file in (self.file, self.file.with_name(f"{FILE}.part")):
                with suppress(OSError):
                    file.unlink(missing_ok=True)


def read_heartbeat(folder: Path) -> Progress | None:
    """The last beat in a run's folder, if there is one that can be read.

    >>> read_heartbeat(Path("nowhere"))
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Progress)
    except (OSError, msgspec.MsgspecError):
        return None
