"""Locks of folders: one writer at a time; errors name the process that holds the lock."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoolearn.errors import InUse, StoreError


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Locks a folder for one writer; raises an error that names who has it. The system frees it if we are killed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write in {folder}: {error.strerror}; give another folder") from error
    with lock as file:
        if not _lock(file.fileno()):
            file.seek(0)
            raise InUse(f"{folder} is in use by {file.read().strip() or 'another program'}; wait for it or stop it")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
