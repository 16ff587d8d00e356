"""Words of messages: numbers as people read them, with their nouns, and names that may be many."""

from collections.abc import Sequence

JOINERS = "\u200c\u200d"  # of no width; words of Persian and Hindi are spelled with them, and families of emoji


def is_printable(text: str) -> bool:
    """Whether a text can be shown on a terminal or a page, unlike one with line breaks or marks that turn what follows.

    >>> is_printable("r\u00fcbe"), is_printable("\u0645\u06cc\u200c\u062e"), is_printable("a\\nb"), is_printable("\u202egnp.x")
    (True, True, False, False)
    """
    return "".join(letter for letter in text if letter not in JOINERS).isprintable()


def printable(text: str) -> str:
    r"""A text that can be shown: a question mark for each letter that cannot.

    >>> printable("my\u00a0zoo")
    'my?zoo'
    """
    return "".join(letter if is_printable(letter) else "?" for letter in text)


def plural(count: int, word: str, words: str | None = None) -> str:
    """A number with its word.

    >>> plural(1, "member"), plural(2_000, "class", "classes")
    ('1 member', '2,000 classes')
    """
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def some(names: Sequence[str], most: int = 10) -> str:
    """The first names of a list, and how many more there are.

    >>> some(["a", "b"]), some(["a", "b", "c", "d"], most=2)
    ('a, b', 'a, b and 2 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(0.3), duration(7), duration(125), duration(8000), duration(200_000)
    ('1 s', '7 s', '2 min', '2.2 h', '2.3 days')
    """
    for size, unit in ((86400, "days"), (3600, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{max(1, round(seconds))} s"


def megabytes(size: float) -> str:
    """Bytes as people read them.

    >>> megabytes(1_234_567), megabytes(999)
    ('1.23 MB', '0.00 MB')
    """
    return f"{size / 1e6:,.2f} MB"
