"""Other processes that tests start: they hear Ctrl-C, and none is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

PATIENCE = 240.0  # seconds; a busy machine is no fault of the code
HEARING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def started(arguments: Sequence[object], **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Python with these arguments, in a group of its own; all of the group has ended when the block ends.

    SIGINT and SIGHUP are back to their defaults there: whoever starts the tests may ignore them (`nohup make test &`, many CI runners),
    and children inherit that.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", HEARING, sys.executable, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def eventually(holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What a question gives once it is true."""
    until = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)
    return found
