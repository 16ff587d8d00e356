"""How many cores this process may use, and how many threads it should: never more threads than cores."""

import os

from zoolearn.errors import SettingsError

MOST_THREADS = 1024  # torch ends the process where it cannot start them all


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
