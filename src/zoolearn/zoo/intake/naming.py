"""What tasks, classes, columns and files of features may be named, checked before anything of them is read."""

from zoolearn.errors import DataError
from zoolearn.words import JOINERS, is_printable
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.settings import LONGEST_NAME


def check_name(name: str, index: Index, instead_of: str | None = None) -> None:
    """Raises if a new task's name is taken, looks like that of another task, or cannot be displayed."""
    check_odd_name("task", name)
    check_ends("task", name)
    if name in index.tasks:
        raise DataError(
            f"task {name!r} was learned already; give the new one another name, or forget the old one first"
        )
    bare = _without_joiners(name)
    for other in index.tasks:
        has_joiners = name != bare or not other.isascii()  # cheap to ask, of thousands of names
        if has_joiners and other != instead_of and _without_joiners(other) == bare:
            raise DataError(
                f"task {name!r} differs from task {other!r} by invisible joiners alone; give it another name"
            )


def _without_joiners(name: str) -> str:
    return "".join(letter for letter in name if letter not in JOINERS)


def check_ends(kind: str, name: str) -> None:
    """Raises on a name with spaces or joiners around it: it would look like another, and tables would lose them.

    >>> check_ends("class", "heron\u200d")
    Traceback (most recent call last):
    zoolearn.errors.DataError: a class is named 'heron\\u200d', with invisible joiners around it; name it 'heron'
    """
    bare = name.strip(f" {JOINERS}").strip()
    if name != bare:
        what = "spaces" if name != name.strip() else "invisible joiners"
        raise DataError(f"a {kind} is named {name!r}, with {what} around it; name it {bare!r}")


def check_odd_name(kind: str, name: str) -> None:
    """Raises if a name is empty to the eye, too long, or would not be displayed as it is."""
    if not name.strip(f" {JOINERS}") or not is_printable(name) or len(name) > LONGEST_NAME:
        shown = f"{name[:80]!r}... ({len(name)} characters)" if len(name) > LONGEST_NAME else repr(name)
        raise DataError(f"a {kind} is named {shown}; give it a name of 1 to {LONGEST_NAME} printable characters")
