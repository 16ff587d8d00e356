"""The process started by `trial`: reads a file's bytes, runs its net, and prints one line of JSON."""

import json
import sys
from contextlib import suppress

from zoolearn.features.session import open_session
from zoolearn.features.trial import what_is_wrong


def main(arguments: list[str]) -> None:
    """Tries the net whose bytes come from standard input."""
    content = sys.stdin.buffer.read()
    size, num_features, memory, seconds = map(int, arguments)
    limit(memory, seconds)
    try:
        wrong = what_is_wrong(open_session(content), size, num_features)
    except Exception as error:  # the runtime's own errors, for any file
        short = isinstance(error, MemoryError) or "alloc" in str(error)
        reason = f"it asks for more than {memory / 2**30:.1f} GB of memory" if short else " ".join(str(error).split())
        wrong = f"cannot be run ({reason[:300]})"
    print(json.dumps({"wrong": wrong}))


def limit(memory: int, seconds: int) -> None:
    """Sets the limits of this process, where the system supports them."""
    try:
        import resource
    except ImportError:
        return
    wanted = {"RLIMIT_AS": memory, "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    for kind, most in wanted.items():
        with suppress(AttributeError, ValueError, OSError):  # some systems know a limit and take none
            _, hard = resource.getrlimit(getattr(resource, kind))
            allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(getattr(resource, kind), (allowed, allowed))


if __name__ == "__main__":
    main(sys.argv[1:])
