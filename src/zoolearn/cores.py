"""How many cores this process may use, how many threads it should (never more than cores), and what memory it keeps."""

import ctypes
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

from zoolearn.errors import SettingsError

MOST_THREADS = 1024  # torch ends the process where it cannot start them all
TRIM_THRESHOLD, MMAP_MAX = -1, -4  # names of glibc's for `mallopt`
KEPT_BYTES = 1 << 30  # of freed memory
SAMPLE = 0.2  # seconds


def usable_cores() -> int:
    """The cores that this process may use: its CPU affinity, within the limit of its container; at least 1."""
    from joblib import cpu_count  # takes a while, and only work on many cores asks

    return int(cpu_count())


def check_threads(threads: int) -> None:
    """Refuses a number of threads that no machine has."""
    if not 1 <= threads <= MOST_THREADS:
        raise SettingsError(f"threads is {threads}; give 1 to {MOST_THREADS}")


def default_threads() -> int:
    """Threads of one training: what OMP_NUM_THREADS says, within the usable cores; otherwise one.

    One, because two threads of a small net need each other many times in a millisecond: when another program takes one
    of their cores, both wait (docs/speed.md has the numbers). And because sums over several threads round otherwise:
    with one, a run is the same on every number of cores.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(int(asked), usable_cores()) if asked.isdigit() and int(asked) > 1 else 1


def free_threads() -> int:
    """Threads of one training that somebody waits for: what OMP_NUM_THREADS says; otherwise the cores that are idle now.

    All usable cores where the system does not say how busy they are.
    """
    if os.environ.get("OMP_NUM_THREADS"):
        return default_threads()
    stat = Path("/proc/stat")
    if not stat.exists():
        return usable_cores()
    before = stat.read_text()
    time.sleep(SAMPLE)
    return max(1, min(usable_cores(), idle_cores(before, stat.read_text(), os.sched_getaffinity(0))))


def idle_cores(before: str, after: str, cores: Collection[int]) -> int:
    """How many of these cores were idle between two texts of Linux's /proc/stat; those that it does not count were.

    Nice programs count as busy: they give way in part only. The kernel may take back what a core waited for a disk.

    >>> idle_cores("cpu0 5 0 0 10 0\\ncpu1 5 0 0 10 0", "cpu0 25 0 0 10 0\\ncpu1 6 0 0 28 1", cores=[0, 1, 2])
    2
    """
    then, now = _ticks(before), _ticks(after)
    idle = 0.0
    for core in (f"cpu{number}" for number in cores):
        spent = [max(0, late - early) for early, late in zip(then.get(core, ()), now.get(core, ()), strict=False)]
        idle += sum(spent[3:5]) / sum(spent) if any(spent) else 1.0
    return round(idle)


def _ticks(stat: str) -> dict[str, list[int]]:
    """What each core has spent since the system was started: on users, nice ones, the system, idling, waiting for a disk..."""
    lines = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    return {core: [int(word) for word in words[:8]] for core, *words in lines}


def keep_freed_memory() -> None:
    """Lets this process keep the memory that it frees, for the next step of a training to take.

    By default glibc gives every large block back to the system, which has to clear it when it is next asked for: a third
    of the time of a training with pictures of 84 pixels (docs/speed.md). Only for processes of our own that train and
    end, not for a caller's or a server's; who has set glibc's allocator otherwise keeps that.
    """
    if sys.platform != "linux" or {"GLIBC_TUNABLES", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"} & os.environ.keys():
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if set_option is not None:
        set_option(MMAP_MAX, 0)
        set_option(TRIM_THRESHOLD, KEPT_BYTES)
