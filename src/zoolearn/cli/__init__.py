"""The `zoo` command: one module per subcommand, imported only when it is called, so that help is instant.

A command reads its arguments into a dataclass, calls one function of `runs`, `lab` or `zoo`, and shows what it gives;
it decides nothing about learning. A mistake of the caller's ends in one line on stderr that names the way out.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType
from typing import Any

from zoolearn.cli.commands import COMMANDS, overview
from zoolearn.cli.output import encode_all

LASTING = ("serve", "watch")  # commands that do not end by themselves


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `zoo COMMAND ...`; a mistake of the caller's ends in one line on stderr and exit code 1 or 2."""
    encode_all()
    if arguments is None:
        _hear_signals(_leave)
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _hear_signals(stop: Callable[[int, FrameType | None], Any]) -> None:
    """Ctrl-C, `kill` and a closed terminal all stop a command in good order.

    Also where Ctrl-C is ignored from the start, as after `nohup zoo ... &` and in some CI; `nohup` itself is respected.
    """
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, stop)


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends at once, while modules are imported: some lose an interrupt, and go on half imported."""
    os.write(2, b"zoo: stopped\n")
    os._exit(130)


def _run(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"zoolearn {version('zoolearn')}")
        return
    from zoolearn.cores import keep_freed_memory
    from zoolearn.errors import ZooError, unknown_name

    if words[0] not in COMMANDS:
        _fail(unknown_name("command", words[0], COMMANDS) + "\n`zoo --help` says what each does", 2)
    if words[0] not in LASTING:
        keep_freed_memory()
    try:
        command = import_module(COMMANDS[words[0]].module)
        if signal.getsignal(signal.SIGINT) is _leave:
            _hear_signals(signal.default_int_handler)
        command.main(words[1:])
    except ZooError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except Exception as error:
        from zoolearn.cli.failures import describe_error, format_own_trace

        if (trace := format_own_trace(error)) is None:
            raise
        print(trace, file=sys.stderr, end="")
        _fail(f"code of your own failed: {describe_error(error)}", 1)


def _fail(message: str, code: int) -> None:
    print(f"zoo: {message}", file=sys.stderr)
    sys.exit(code)
