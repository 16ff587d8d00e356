"""Output streams of commands: colours and width of a terminal, or plain lines."""

import codecs
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

UNFOLDED = 100_000  # columns of a stream that is no terminal: nothing is wrapped or cut for want of room
PLAIN = str.maketrans(
    {
        "±": "+-",
        "…": "...",
        "→": "->",
        "·": ".",
        "∘": "o",
        "●": "*",
        "◌": "o",
        "○": "o",
        "•": "*",
        **dict.fromkeys("─━╴╶╸╺", "-"),
        **dict.fromkeys("│┃├┤╵╷", "|"),
        **dict.fromkeys("└┌┐┘╭╮╯╰┼┬┴", "+"),
        **dict(zip("▁▂▃▄▅▆▇█", "_.,-~=+#", strict=True)),
    }
)


def console(*, stderr: bool = False) -> "Console":
    """The console of standard output or of the error stream."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream)
    return Console(file=stream, width=UNFOLDED, force_terminal=False, color_system=None, highlight=False)


def width() -> int | None:
    """The width of the terminal; None without one."""
    return console().width if sys.stdout.isatty() else None


def encode_all() -> None:
    """Lets both streams take any character: unsupported ones are replaced by plain ones or escapes."""
    codecs.register_error("zoolearn-plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape", "backslashreplace"):
            stream.reconfigure(errors="zoolearn-plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """A codec's error handler: our own signs have plain forms, other characters (in people's names) stay distinct.

    >>> encode_all()
    >>> print("98.5 ± 0.1, größer".encode("ascii", "zoolearn-plain").decode())
    98.5 +- 0.1, gr\\xf6\\xdfer
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = error.object[error.start : error.end].translate(PLAIN)
    return plain.encode("ascii", "backslashreplace").decode("ascii"), error.end
