"""Notes what is flushed to the disk and what takes its name, in which order."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Disk:
    """Every flush and every renaming, in order: of which file (by its number on the disk), how long it was, and its new name."""

    flushes: list[tuple[int, int, int]] = field(default_factory=list)  # when, file, size
    renames: list[tuple[int, int, Path]] = field(default_factory=list)  # when, file, name
    now: int = 0

    def tick(self) -> int:
        self.now += 1
        return self.now

    def named(self, path: Path) -> int:
        """When a file was last given its name."""
        return max(when for when, _, name in self.renames if name == path)

    def was_whole_before(self, path: Path, moment: int) -> bool:
        """Whether all that is now in the file had been flushed before some moment."""
        facts = path.stat()
        return any(when < moment and (file, size) == (facts.st_ino, facts.st_size) for when, file, size in self.flushes)

    def was_listed_between(self, path: Path, moment: int) -> bool:
        """Whether the folder of the file was flushed after it had its name, and before some moment."""
        folder = path.parent.stat().st_ino
        return any(self.named(path) < when < moment and file == folder for when, file, _ in self.flushes)


@contextmanager
def watched_disk() -> Iterator[Disk]:
    """Watches inside the block."""
    disk = Disk()
    fsync, replace = os.fsync, os.replace

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        facts = os.fstat(descriptor)
        disk.flushes.append((disk.tick(), facts.st_ino, facts.st_size))

    def rename(source: Path, target: Path) -> None:
        disk.renames.append((disk.tick(), os.stat(source).st_ino, Path(target)))
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        patch.setattr(os, "replace", rename)
        yield disk
